// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollback is the kind Rollback: it ends a rollout by going back. It is made for finally: where there is nothing
// to take back it changes nothing and succeeds, and it never waits for somebody else's rollout.
package rollback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-dev/sluice/pkg/access"
	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/onservice"
	"github.com/sluice-dev/sluice/pkg/steps/step"
	"github.com/sluice-dev/sluice/pkg/target"
)

const (
	defaultDeadline = 2 * time.Minute
	// cause is why the traffic went back, in the rollout's memory.
	cause = "Rollback"
)

// Kind is the kind Rollback.
func Kind(deps onservice.Deps) step.Kind {
	kind, _ := v1alpha1.FindKind(v1alpha1.Rollback)
	return step.Kind{Kind: kind, New: func(params *step.Params) step.Step { return newStep(deps, params) }}
}

type rollback struct {
	onservice.Deps
	params onservice.Params
	// toPrevious asks for the stable revision before the present one.
	toPrevious bool
	force      bool
}

func newStep(deps onservice.Deps, given *step.Params) step.Step {
	return &rollback{
		Deps: deps, params: onservice.ReadParams(given, defaultDeadline),
		toPrevious: given.OneOf("to", "", onservice.Previous) == onservice.Previous,
		force:      given.Bool("force", false),
	}
}

// Reconcile does one pass.
func (r *rollback) Reconcile(ctx context.Context, run *step.Run) (step.Outcome, error) {
	if r.toPrevious {
		return r.previous(ctx, run)
	}
	found, copied, err := r.Look(ctx, run, r.params)
	if err != nil {
		var refused *step.NeedsUser
		if errors.As(err, &refused) && refused.Reason == v1alpha1.ReasonTargetNotFound {
			return nothing(nil, refused.Message), nil
		}
		return step.EndOrRetry(err)
	}
	view, err := r.View(ctx, found)
	if err != nil {
		return step.Outcome{}, err
	}
	out, next := decide(view, copied, run, r.force)
	if next.Memory == nil {
		return r.until(out, run, found), nil
	}
	events, err := r.Apply(ctx, access.Subject{Namespace: found.Namespace, ServiceAccount: run.ServiceAccount()}, found, next)
	if err != nil {
		return step.EndOrRetry(err)
	}
	run.State.Rollout = next.Memory.Clone()
	out.Events = events
	return out, nil
}

// Cancel lets the way back go on by itself: the controller ends what is under way.
func (r *rollback) Cancel(_ context.Context, _ *step.Run) (step.Outcome, error) {
	return step.Failure("", "The controller ends the rollout"), nil
}

// decide tells what a rollback does on what it finds: the outcome of this pass, and the write before it, if any.
func decide(view rollout.View, copied *rollout.Memory, run *step.Run, force bool) (step.Outcome, rollout.Next) {
	memory := view.Memory
	ours := memory.HeldBy(run.Root.Holder)
	mine := memory != nil && memory.Last != nil && memory.Last.By == run.CustomRun.UID
	held := memory != nil && memory.Outcome == v1alpha1.Held
	switch {
	case memory == nil && copied.UnderWay():
		return step.Failure(v1alpha1.ReasonLockLost, "the rollout's memory is gone from the Service, so the way back is not known: the split stays at "+
			rollout.Split(view.Now)), rollout.Next{}
	case mine && memory.Outcome == v1alpha1.RolledBack:
		return back(memory), rollout.Next{}
	case mine && memory.Outcome != "":
		return step.Failure(v1alpha1.ReasonConflict, "somebody changed the split while it went back: it stays at "+rollout.Split(view.Now)), rollout.Next{}
	case held && force:
		memory = memory.Clone()
		memory.Outcome, memory.Cause, memory.Ended, memory.Hold = "", "", nil, nil
		view.Memory = memory
		return begin(view, run)
	case !ours:
		return nothing(view.Now, "this run began no rollout"), rollout.Next{}
	case !memory.UnderWay():
		return nothing(view.Now, fmt.Sprintf("the rollout has ended already: %s", memory.Outcome)), rollout.Next{}
	case memory.Back != nil:
		next := rollout.FinishBack(view, run.Now)
		switch {
		case next.Memory == nil:
			return step.Working(next.Message, 0), next
		case next.Memory.Outcome == v1alpha1.RolledBack:
			return back(next.Memory), next
		default:
			return step.Failure(v1alpha1.ReasonConflict, next.Message), next
		}
	case memory.Hold != nil && !force:
		return nothing(view.Now, "the rollout is held where it is: force goes back"), rollout.Next{}
	case memory.Stable == "":
		return nothing(view.Now, "this is a first delivery: there is nothing to go back to"), rollout.Next{}
	case rollout.Compare(memory, view.Now) == rollout.Against && !force:
		return step.Failure(v1alpha1.ReasonConflict, fmt.Sprintf(
			"somebody changed the split by hand: it is %s, the rollout had set %s; it stays as it is, and force goes back",
			rollout.Split(view.Now), rollout.Split(memory.Table))), rollout.Next{}
	default:
		return begin(view, run)
	}
}

// begin starts on the way back.
func begin(view rollout.View, run *step.Run) (step.Outcome, rollout.Next) {
	next := rollout.StartBack(view, cause, run.Now)
	next.Memory.Last = &rollout.Change{By: run.CustomRun.UID, Previous: rollout.Split(view.Now)}
	if next.Memory.Outcome != "" {
		return back(next.Memory), next
	}
	return step.Working(next.Message, 0), next
}

// back is the good end of a rollback that changed something.
func back(memory *rollout.Memory) step.Outcome {
	split := rollout.Split(memory.Table)
	message := "The traffic is back at " + split
	if memory.Follow {
		message += "; the Service stays pinned to " + memory.Stable + " until a rollout is promoted"
	}
	changed := memory.Candidate != "" && memory.Candidate != memory.Stable
	return step.Success(message, map[string]string{
		"traffic": split, "revision": memory.Stable, "changed": strconv.FormatBool(changed),
	})
}

// nothing is the good end of a rollback that has nothing to do.
func nothing(now []rollout.Entry, why string) step.Outcome {
	return step.Success("Nothing to take back: "+why, map[string]string{"traffic": rollout.Split(now), "changed": "false"})
}

// until bounds the wait for the ingress.
func (r *rollback) until(out step.Outcome, run *step.Run, found *target.Target) step.Outcome {
	if out.Phase != step.Running {
		return out
	}
	if run.Now.Sub(run.Started) > r.params.Deadline {
		_, missing := found.Settled()
		return step.Failure(v1alpha1.ReasonRollbackFailed, "The traffic did not go back by the deadline: "+missing+"; the controller goes on trying")
	}
	out.After = onservice.Recheck
	return out
}

// previous gives everything that stable has to the revision that was stable before it. It is a rollout of its own.
func (r *rollback) previous(ctx context.Context, run *step.Run) (step.Outcome, error) {
	turn, out, err := r.Take(ctx, run, r.params)
	if turn == nil {
		return out, err
	}
	if memory := turn.Began; memory != nil && memory.Last != nil && memory.Last.By == run.CustomRun.UID {
		return r.served(turn, memory), nil
	}
	if turn.Began != nil {
		return step.Failure(v1alpha1.ReasonInvalidParams,
			"to: a rollout of this run is under way, and goes back to the split it found: leave the param to out"), nil
	}
	memory, err := turn.Memory()
	if err != nil {
		return step.EndOrRetry(err)
	}
	name, err := turn.Resolve(onservice.Previous, memory)
	if err != nil {
		return step.EndOrRetry(err)
	}
	revision, err := turn.Revision(ctx, name)
	if err != nil {
		return step.EndOrRetry(err)
	}
	if !revision.IsReady() {
		return step.Failure(v1alpha1.ReasonRevisionFailed, "revision "+name+" is not ready, so nothing can go back to it"), nil
	}
	pinned := rollout.Pin(turn.Table, memory.Stable)
	table := rollout.SetShares(pinned, memory.Before, []rollout.Share{
		{Revision: name, Percent: rollout.ShareOf(pinned, memory.Stable)}, {Revision: memory.Stable},
	})
	memory.Candidate, memory.Table = name, table
	memory.Last = &rollout.Change{By: run.CustomRun.UID, Previous: rollout.Split(pinned)}
	out = step.Working("Going back to revision "+name, turn.Recheck())
	out.Events = []step.Event{{Reason: v1alpha1.EventSplitChanged, Message: "The split is now " + rollout.Split(table), OnTarget: turn.OnTarget()}}
	if slices.Equal(pinned, table) {
		return nothing(turn.Table, name+" has everything already"), nil
	}
	if err := turn.Write(ctx, target.Change{Memory: memory, Table: table}); err != nil {
		return step.EndOrRetry(err)
	}
	return out, nil
}

// served is the end of going back to the previous revision, once the ingress has the split.
func (r *rollback) served(turn *onservice.Turn, memory *rollout.Memory) step.Outcome {
	settled, missing := turn.Settled()
	switch {
	case settled:
		return step.Success("Revision "+memory.Candidate+" has the traffic again", map[string]string{
			"traffic": rollout.Split(turn.Table), "revision": memory.Candidate, "changed": "true",
		})
	case turn.Late():
		return step.Failure(v1alpha1.ReasonRollbackFailed, "The traffic did not go back by the deadline: "+missing)
	default:
		return step.Working("Going back to revision "+memory.Candidate+": "+missing, turn.Recheck())
	}
}
