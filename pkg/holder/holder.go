// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package holder finds the run at the top of a run's owners, and tells how far it is. Owners are followed by live reads
// and by UID: labels and names prove nothing.
package holder

import (
	"context"
	"fmt"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	tektonclient "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/pkg/apis"

	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

// maxDepth bounds the chain of owners: pipelines in pipelines are two or three deep.
const maxDepth = 16

const tektonGroup = "tekton.dev"

// Finder finds roots.
type Finder struct {
	Tekton tektonclient.Interface
}

// ErrGone says that an owner is not there any more: the run is about to be removed too.
type ErrGone struct{ Owner string }

// Error names the owner.
func (e *ErrGone) Error() string { return e.Owner + " is gone" }

// Of finds the root of a CustomRun: its controlling owners, as long as they are PipelineRuns and CustomRuns of Tekton.
func (f Finder) Of(ctx context.Context, run *v1beta1.CustomRun) (step.Root, error) {
	root := step.Root{
		Holder: rollout.Holder{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "CustomRun", Name: run.Name, UID: run.UID},
		Labels: run.Labels,
	}
	var object metav1.Object = run
	for range maxDepth {
		owner := metav1.GetControllerOf(object)
		if owner == nil {
			return root, nil
		}
		version, err := schema.ParseGroupVersion(owner.APIVersion)
		if err != nil || version.Group != tektonGroup {
			return root, nil
		}
		switch owner.Kind {
		case "PipelineRun":
			pipelineRun, err := f.Tekton.TektonV1().PipelineRuns(run.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
			if err := found(err, pipelineRun, owner); err != nil {
				return root, err
			}
			object, root = pipelineRun, ofPipelineRun(ctx, pipelineRun)
		case "CustomRun":
			parent, err := f.Tekton.TektonV1beta1().CustomRuns(run.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
			if err := found(err, parent, owner); err != nil {
				return root, err
			}
			object = parent
			root = step.Root{
				Holder: rollout.Holder{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "CustomRun", Name: parent.Name, UID: parent.UID},
				Labels: parent.Labels,
			}
		default:
			return root, nil
		}
	}
	return root, fmt.Errorf("the owners of CustomRun %s are more than %d deep", run.Name, maxDepth)
}

// found makes an owner that is missing, or another of the same name, an ErrGone.
func found(err error, object metav1.Object, owner *metav1.OwnerReference) error {
	switch {
	case apierrors.IsNotFound(err):
		return &ErrGone{Owner: owner.Kind + " " + owner.Name}
	case err != nil:
		return fmt.Errorf("cannot read %s %s: %w", owner.Kind, owner.Name, err)
	case object.GetUID() != owner.UID:
		return &ErrGone{Owner: owner.Kind + " " + owner.Name}
	default:
		return nil
	}
}

func ofPipelineRun(ctx context.Context, run *pipelinev1.PipelineRun) step.Root {
	root := step.Root{
		Holder: rollout.Holder{APIVersion: pipelinev1.SchemeGroupVersion.String(), Kind: "PipelineRun", Name: run.Name, UID: run.UID},
		Labels: run.Labels,
	}
	// Without timeouts a PipelineRun has Tekton's default, 60 minutes unless the operator set another.
	if timeout := run.PipelineTimeout(ctx); timeout > 0 && run.Status.StartTime != nil {
		root.Until = run.Status.StartTime.Add(timeout)
		root.Timeouts = timeout.Round(time.Second).String()
	}
	return root
}

// State tells how far a rollout's holder is.
func (f Finder) State(ctx context.Context, namespace string, holder rollout.Holder) (rollout.HolderState, error) {
	if holder.Kind == "PipelineRun" {
		run, err := f.Tekton.TektonV1().PipelineRuns(namespace).Get(ctx, holder.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || (err == nil && run.UID != holder.UID) {
			return rollout.HolderDeleted, nil
		}
		if err != nil {
			return "", fmt.Errorf("cannot read %s: %w", holder, err)
		}
		return stateOf(run.Status.GetCondition(apis.ConditionSucceeded), map[string]rollout.HolderState{
			pipelinev1.PipelineRunReasonCancelled.String(): rollout.HolderCancelled,
			pipelinev1.PipelineRunReasonTimedOut.String():  rollout.HolderTimedOut,
		}), nil
	}
	run, err := f.Tekton.TektonV1beta1().CustomRuns(namespace).Get(ctx, holder.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && run.UID != holder.UID) {
		return rollout.HolderDeleted, nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", holder, err)
	}
	return stateOf(run.Status.GetCondition(apis.ConditionSucceeded), map[string]rollout.HolderState{
		v1beta1.CustomRunReasonCancelled.String(): rollout.HolderCancelled,
		v1beta1.CustomRunReasonTimedOut.String():  rollout.HolderTimedOut,
	}), nil
}

func stateOf(condition *apis.Condition, reasons map[string]rollout.HolderState) rollout.HolderState {
	switch {
	case condition == nil || condition.IsUnknown():
		return rollout.HolderRunning
	case condition.IsTrue():
		return rollout.HolderSucceeded
	case reasons[condition.Reason] != "":
		return reasons[condition.Reason]
	default:
		return rollout.HolderFailed
	}
}
