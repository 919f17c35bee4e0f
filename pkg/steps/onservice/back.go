// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package onservice

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-dev/sluice/pkg/access"
	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/step"
	"github.com/sluice-dev/sluice/pkg/target"
)

func microTime(t time.Time) metav1.MicroTime { return metav1.NewMicroTime(t) }

// View reads what the end of a rollout needs to know of its target.
func (d Deps) View(ctx context.Context, found *target.Target) (rollout.View, error) {
	view := rollout.View{
		Memory: found.Memory, Now: found.Table, LatestReady: found.LatestReady(), RolloutDuration: found.RolloutDuration != "",
	}
	view.Settled, _ = found.Settled()
	if found.Memory != nil && found.Memory.Candidate != "" {
		revision, _, err := d.Targets.Revision(ctx, found, found.Memory.Candidate)
		if err != nil {
			return view, err
		}
		view.CandidateReady = revision != nil && revision.IsReady()
	}
	return view, nil
}

// Apply writes the next step of a rollout's end, and says on the target what happened.
func (d Deps) Apply(ctx context.Context, subject access.Subject, found *target.Target, next rollout.Next) ([]step.Event, error) {
	if next.Memory == nil {
		return nil, nil
	}
	if err := d.Write(ctx, subject, found, target.Change{Memory: next.Memory, Table: next.Table}); err != nil {
		return nil, err
	}
	on := &types.NamespacedName{Namespace: found.Namespace, Name: found.Name}
	if next.Abandoned {
		return []step.Event{{Warning: true, Reason: v1alpha1.EventRolloutAbandoned, Message: next.Message, OnTarget: on}}, nil
	}
	reasons := map[v1alpha1.Outcome]string{
		v1alpha1.Promoted:   v1alpha1.EventRolloutPromoted,
		v1alpha1.RolledBack: v1alpha1.EventRolloutRolledBack,
		v1alpha1.Held:       v1alpha1.EventRolloutHeld,
	}
	if reason := reasons[next.Memory.Outcome]; reason != "" {
		return []step.Event{{Warning: next.Memory.Outcome != v1alpha1.Promoted, Reason: reason, Message: next.Message, OnTarget: on}}, nil
	}
	return nil, nil
}

// Cancel is one pass of stopping a run: what its holder began goes back first.
func (d Deps) Cancel(ctx context.Context, run *step.Run, params Params) (step.Outcome, error) {
	if run.State.Target == nil {
		return step.Failure("", "Nothing had begun"), nil
	}
	found, err := d.find(ctx, run, params)
	if err != nil {
		// The Service is gone, or is not the one that the run began with: there is nothing to take back.
		var refused *step.NeedsUser
		if errors.As(err, &refused) {
			return step.Failure("", refused.Message), nil
		}
		return step.Outcome{}, err
	}
	memory := found.Memory
	if !memory.HeldBy(run.Root.Holder) || !memory.UnderWay() {
		return step.Failure("", "The traffic is at "+rollout.Split(found.Table)), nil
	}
	view, err := d.View(ctx, found)
	if err != nil {
		return step.Outcome{}, err
	}
	var next rollout.Next
	switch {
	case memory.Back != nil:
		next = rollout.FinishBack(view, run.Now)
	case memory.Hold != nil:
		return step.Failure("", "The rollout is held where it is, at "+rollout.Split(found.Table)), nil
	case rollout.Compare(memory, found.Table) == rollout.Against:
		return step.Failure("", "Somebody changed the split by hand: it stays at "+rollout.Split(found.Table)), nil
	case memory.Stable == "":
		return step.Failure("", "This is a first delivery: there is nothing to go back to"), nil
	default:
		next = rollout.StartBack(view, string(run.State.Stopping.Reason), run.Now)
	}
	late := run.Now.Sub(run.State.Stopping.Since) > stopWithin
	if next.Memory == nil && late {
		_, missing := found.Settled()
		return step.Failure(v1alpha1.ReasonRollbackFailed, "The traffic did not go back within a minute: "+missing+
			"; the controller goes on trying"), nil
	}
	events, err := d.Apply(ctx, access.Subject{Namespace: found.Namespace, ServiceAccount: run.ServiceAccount()}, found, next)
	if err != nil {
		out, err := step.EndOrRetry(err)
		if err == nil {
			out.Reason = v1alpha1.ReasonRollbackFailed
		}
		return out, err
	}
	if next.Memory != nil && next.Memory.Outcome != "" {
		run.State.Rollout = next.Memory.Clone()
		out := step.Failure("", next.Message)
		out.Events = events
		return out, nil
	}
	out := step.Waiting(next.Message, Recheck)
	out.Events = events
	return out, nil
}
