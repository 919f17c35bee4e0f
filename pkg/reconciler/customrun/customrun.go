// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package customrun is the life of a CustomRun: start, cancel, time out, retry, finish. One reconciler for all kinds:
// several would share a work queue's name and a lease (knative.dev/pkg, leaderelection), and only one of them would lead.
package customrun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	tektonclient "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	customrunreconciler "github.com/tektoncd/pipeline/pkg/client/injection/reconciler/pipeline/v1beta1/customrun"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/holder"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

// Roots finds the root of a run.
type Roots interface {
	Of(ctx context.Context, run *v1beta1.CustomRun) (step.Root, error)
}

// Reconciler brings one CustomRun of ours a pass further.
type Reconciler struct {
	Tekton tektonclient.Interface
	Clock  clock.PassiveClock
	Roots  Roots
	// Kinds are the kinds there are, by name.
	Kinds map[string]step.Kind
}

var _ customrunreconciler.Interface = (*Reconciler)(nil)

// ReconcileKind does one pass. The status is written here, once, and only if it changed, on the condition that the run
// is still the one that was read: knative's generated reconciler is told to leave it alone, since it would mark a
// finished run Unknown when Tekton cancels its PipelineRun, and write over a status newer than the one it read.
func (r *Reconciler) ReconcileKind(ctx context.Context, run *v1beta1.CustomRun) reconciler.Event {
	if !Ours(run) || run.Status.CompletionTime != nil || run.DeletionTimestamp != nil {
		return nil
	}
	before := run.Status.DeepCopy()
	state, err := step.ReadState(run)
	if err != nil {
		logging.FromContext(ctx).Errorw("Left alone", "error", err)
		return nil
	}
	now := r.Clock.Now()
	started := run.HasStarted()
	if !started {
		run.Status.StartTime = &metav1.Time{Time: now}
		run.Status.InitializeConditions()
	}
	out, err := r.pass(ctx, run, state, now)
	var gone *holder.ErrGone
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := report(run, state, out, now); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(*before, run.Status) {
		if _, err := r.Tekton.TektonV1beta1().CustomRuns(run.Namespace).UpdateStatus(ctx, run, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("cannot write the status: %w", err)
		}
	}
	tell(ctx, run, state, out, started)
	return again(run, out, now)
}

// pass asks the kind for one pass.
func (r *Reconciler) pass(ctx context.Context, run *v1beta1.CustomRun, state *step.State, now time.Time) (step.Outcome, error) {
	stop(run, state, now)
	kind, err := r.kindOf(run)
	if err != nil {
		return step.EndOrRetry(err)
	}
	params := step.ReadParams(kind.Kind, run.Spec.Params)
	task := kind.New(params)
	if err := params.Err(); err != nil {
		return step.EndOrRetry(err)
	}
	root, err := r.Roots.Of(ctx, run)
	if err != nil {
		return step.Outcome{}, err
	}
	pinned := root.Holder
	state.Holder = &pinned
	pass := &step.Run{
		CustomRun: run.DeepCopy(), Root: root, Now: now, Started: run.Status.StartTime.Time, Until: until(run), State: state,
	}
	if state.Stopping != nil {
		return task.Cancel(ctx, pass)
	}
	return task.Reconcile(ctx, pass)
}

// stop notes that the run has been told to stop, or that its own time is up. The first of the two counts.
func stop(run *v1beta1.CustomRun, state *step.State, now time.Time) {
	switch end := until(run); {
	case state.Stopping != nil:
	case run.IsCancelled():
		state.Stopping = &step.Stopping{Since: now, Reason: v1alpha1.ReasonCancelled}
	case !end.IsZero() && !now.Before(end):
		state.Stopping = &step.Stopping{Since: now, Reason: v1alpha1.ReasonTimedOut}
	}
}

// until is when the run's own time is up: Tekton's spec.timeout, for each attempt anew. A run without one that belongs
// to a PipelineRun has that run's time, which Tekton enforces by cancelling; on its own it has Tekton's default.
func until(run *v1beta1.CustomRun) time.Time {
	if run.Spec.Timeout == nil && run.HasPipelineRunOwnerReference() {
		return time.Time{}
	}
	if timeout := run.GetTimeout(); timeout > 0 {
		return run.Status.StartTime.Add(timeout)
	}
	return time.Time{}
}

// Ours reports whether a CustomRun names a kind of our group, of whatever version.
func Ours(run *v1beta1.CustomRun) bool {
	version, err := schema.ParseGroupVersion(reference(run).apiVersion)
	return err == nil && version.Group == v1alpha1.Group
}

type ref struct {
	apiVersion, kind, name string
	embedded               bool
}

func reference(run *v1beta1.CustomRun) ref {
	switch {
	case run.Spec.CustomRef != nil:
		return ref{run.Spec.CustomRef.APIVersion, string(run.Spec.CustomRef.Kind), run.Spec.CustomRef.Name, false}
	case run.Spec.CustomSpec != nil:
		return ref{run.Spec.CustomSpec.APIVersion, run.Spec.CustomSpec.Kind, "", true}
	default:
		return ref{}
	}
}

// kindOf finds the run's kind, and refuses what no kind takes.
func (r *Reconciler) kindOf(run *v1beta1.CustomRun) (step.Kind, error) {
	ref := reference(run)
	kind, known := r.Kinds[ref.kind]
	refuse := func(format string, args ...any) error {
		return step.Refuse(v1alpha1.ReasonInvalidParams, fmt.Sprintf(format, args...))
	}
	switch {
	case ref.apiVersion != v1alpha1.APIVersion:
		return kind, refuse("taskRef.apiVersion: %s is not known, want %s", ref.apiVersion, v1alpha1.APIVersion)
	case !known:
		return kind, refuse("taskRef.kind: %s has no kind %s, only %s", v1alpha1.APIVersion, ref.kind, v1alpha1.KindNames())
	case ref.embedded:
		return kind, refuse("taskSpec: %s takes params only: write taskRef: {apiVersion: %s, kind: %s} and params", ref.kind, v1alpha1.APIVersion, ref.kind)
	case ref.name != "":
		return kind, refuse("taskRef.name: %s takes params only, so there is nothing that %q could name: leave it out", ref.kind, ref.name)
	case len(run.Spec.Workspaces) > 0 && !kind.Workspaces:
		var names []string
		for _, workspace := range run.Spec.Workspaces {
			names = append(names, workspace.Name)
		}
		return kind, step.Refuse(v1alpha1.ReasonWorkspaceNotSupported,
			fmt.Sprintf("%s uses no workspaces, and was given %s: leave them out", ref.kind, strings.Join(names, ", ")))
	default:
		return kind, nil
	}
}

// again asks for the next pass, not later than the run's own time is up.
func again(run *v1beta1.CustomRun, out step.Outcome, now time.Time) reconciler.Event {
	if run.Status.CompletionTime != nil {
		return nil
	}
	after := out.After
	if out.Phase != step.Running {
		// A new attempt begins.
		after = retryAfter
	}
	if end := until(run); !end.IsZero() && (after <= 0 || end.Sub(now) < after) {
		after = max(end.Sub(now), time.Millisecond)
	}
	if after <= 0 {
		return nil
	}
	return controller.NewRequeueAfter(after)
}

// holderOf is for Events: the root, if it is not the run itself.
func holderOf(run *v1beta1.CustomRun, state *step.State) *rollout.Holder {
	if state.Holder == nil || state.Holder.UID == run.UID {
		return nil
	}
	return state.Holder
}
