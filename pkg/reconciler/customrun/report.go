// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package customrun

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/controller"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

const (
	// maxMessage bounds a condition's message: it is one line for a person, and kubectl shows no more.
	maxMessage = 1024
	// maxResult bounds one result: Tekton's own limit for all results of a task is 4 KiB by default.
	maxResult = 1024
	// retryAfter is the pause before a new attempt.
	retryAfter = 5 * time.Second
)

// report writes a pass's outcome into the run's status.
func report(run *v1beta1.CustomRun, state *step.State, out step.Outcome, now time.Time) error {
	run.Status.ObservedGeneration = run.Generation
	out = named(run, state, out)
	message := bounded(sentence(out.Message), maxMessage)
	if out.Phase == step.Failed && state.Stopping == nil && out.Reason.Retryable() && run.GetRetryCount() < run.Spec.Retries {
		return retry(run, state, out, message, now)
	}
	switch out.Phase {
	case step.Running:
		run.Status.MarkCustomRunRunning(string(out.Reason), "%s", message)
	case step.Succeeded:
		run.Status.Results = results(run, out)
		run.Status.MarkCustomRunSucceeded(string(out.Reason), "%s", message)
		run.Status.CompletionTime = &metav1.Time{Time: now}
	case step.Failed:
		run.Status.Results = results(run, out)
		run.Status.MarkCustomRunFailed(string(out.Reason), "%s", message)
		run.Status.CompletionTime = &metav1.Time{Time: now}
	}
	return run.Status.EncodeExtraFields(state)
}

// named gives the end of a stopped run the reason that Tekton wants for it; what happened stays in the message.
func named(run *v1beta1.CustomRun, state *step.State, out step.Outcome) step.Outcome {
	if state.Stopping == nil || out.Phase == step.Running {
		return out
	}
	out.Phase = step.Failed
	if out.Reason == v1alpha1.ReasonRollbackFailed {
		return out
	}
	out.Reason = state.Stopping.Reason
	said := "The run's time was up"
	if state.Stopping.Reason == v1alpha1.ReasonCancelled {
		said = "The run was cancelled"
		if run.Spec.StatusMessage != "" {
			said = strings.TrimSuffix(string(run.Spec.StatusMessage), ".")
		}
	}
	out.Message = said + ". " + out.Message
	return out
}

// retry begins a new attempt, as Tekton asks of a custom task: the status of the old one is kept without its own history,
// and the condition stays Unknown.
func retry(run *v1beta1.CustomRun, state *step.State, out step.Outcome, message string, now time.Time) error {
	failed := run.Status.DeepCopy()
	failed.RetriesStatus = nil
	failed.Results = results(run, out)
	failed.MarkCustomRunFailed(string(out.Reason), "%s", message)
	failed.CompletionTime = &metav1.Time{Time: now}
	if err := failed.EncodeExtraFields(state); err != nil {
		return err
	}
	run.Status.RetriesStatus = append(run.Status.RetriesStatus, *failed)
	run.Status.Results, run.Status.CompletionTime = nil, nil
	run.Status.StartTime = &metav1.Time{Time: now}
	run.Status.MarkCustomRunRunning(string(v1alpha1.ReasonRetrying), "Attempt %d of %d failed (%s): %s",
		run.GetRetryCount(), run.Spec.Retries+1, out.Reason, message)
	state.Own, state.TurnSince, state.InLine = nil, nil, nil
	return run.Status.EncodeExtraFields(state)
}

// results are all of the kind's, and reason and cause: a consumer of a missing one is failed or skipped by Tekton.
func results(run *v1beta1.CustomRun, out step.Outcome) []v1beta1.CustomRunResult {
	kind, _ := v1alpha1.FindKind(reference(run).kind)
	var all []v1beta1.CustomRunResult
	for _, name := range kind.Results {
		all = append(all, v1beta1.CustomRunResult{Name: name, Value: bounded(out.Results[name], maxResult)})
	}
	return append(all,
		v1beta1.CustomRunResult{Name: v1alpha1.ResultReason, Value: string(out.Reason)},
		v1beta1.CustomRunResult{Name: v1alpha1.ResultCause, Value: out.Cause})
}

// sentence begins with a capital letter, unless the first word is a name.
func sentence(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if first == "" || strings.ContainsAny(first, "-:.[]=") {
		return text
	}
	r, size := utf8.DecodeRuneInString(text)
	return strings.ToUpper(string(r)) + text[size:]
}

// bounded cuts a text to so many bytes, between two characters.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = "..."
	cut := limit - len(more)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}

// tell emits what just happened as Events: on the run, its root, and the Service where that is meant.
func tell(ctx context.Context, run *v1beta1.CustomRun, state *step.State, out step.Outcome, started bool) {
	recorder := controller.GetEventRecorder(ctx)
	if recorder == nil {
		return
	}
	var objects []runtime.Object
	objects = append(objects, run)
	if root := holderOf(run, state); root != nil {
		objects = append(objects, &corev1.ObjectReference{
			APIVersion: root.APIVersion, Kind: root.Kind, Namespace: run.Namespace, Name: root.Name, UID: root.UID,
		})
	}
	if !started {
		recorder.Eventf(run, corev1.EventTypeNormal, "Started", "%s began", reference(run).kind)
	}
	events := out.Events
	if run.Status.CompletionTime != nil {
		condition := run.Status.GetCondition(apis.ConditionSucceeded)
		events = append(events, step.Event{Warning: !condition.IsTrue(), Reason: condition.Reason, Message: reference(run).kind + ": " + condition.Message})
	}
	for _, event := range events {
		kind := corev1.EventTypeNormal
		if event.Warning {
			kind = corev1.EventTypeWarning
		}
		for _, object := range objects {
			recorder.Event(object, kind, event.Reason, event.Message)
		}
		if event.OnTarget != nil && state.Target != nil {
			recorder.Event(&corev1.ObjectReference{
				APIVersion: servingv1.SchemeGroupVersion.String(), Kind: "Service",
				Namespace: event.OnTarget.Namespace, Name: event.OnTarget.Name, UID: state.Target.UID,
			}, kind, event.Reason, event.Message)
		}
	}
}
