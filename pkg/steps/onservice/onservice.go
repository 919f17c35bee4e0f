// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package onservice is what every kind that acts on a Service has in common: it finds the Service, waits for its turn
// on it, writes with the rights of the run's service account, and goes back when the run is stopped.
package onservice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-dev/sluice/pkg/access"
	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/step"
	"github.com/sluice-dev/sluice/pkg/target"
)

const (
	// Recheck is when to look again at something that Knative's watch may not tell us about.
	Recheck = 2 * time.Second
	// maxInLine bounds the wait for a turn where the run has no timeout of its own.
	maxInLine = 24 * time.Hour
	// stopWithin is how long a run that is being stopped may take to go back.
	stopWithin = 60 * time.Second
)

// Targets finds, reads and writes targets.
type Targets interface {
	Find(ctx context.Context, namespace, name string) (*target.Target, error)
	Write(ctx context.Context, t *target.Target, change target.Change) error
	DryRun(ctx context.Context, t *target.Target, change target.Change) (*target.Target, error)
	target.RevisionReader
}

// Runs lists the runs, finished ones too, that have a Service pinned.
type Runs interface {
	OnTarget(namespace, name string) ([]*v1beta1.CustomRun, error)
}

// Access answers whether a service account may do something.
type Access interface {
	Allowed(ctx context.Context, subject access.Subject, action access.Action) error
}

// Deps is what the kinds need of the world.
type Deps struct {
	Targets Targets
	Runs    Runs
	Access  Access
}

// Params are those that every kind acting on a Service has.
type Params struct {
	Service  string
	OnBusy   rollout.OnBusy
	Deadline time.Duration
}

// ReadParams reads them.
func ReadParams(params *step.Params, deadline time.Duration) Params {
	return Params{
		Service: params.String("service", ""),
		OnBusy: rollout.OnBusy(params.OneOf("onBusy",
			string(rollout.Wait), string(rollout.Supersede), string(rollout.Fail))),
		Deadline: params.Duration("deadline", deadline, time.Second),
	}
}

// Turn is a run's turn on its Service.
type Turn struct {
	*target.Target
	deps Deps
	run  *step.Run
	// Began is the memory of the rollout under way; nil if this run is the first to begin it.
	Began *rollout.Memory
	// until is when the step's deadline ends.
	until time.Time
}

// Take finds the Service and this run's turn on it. If it is not this run's turn, the outcome says why and until when.
func (d Deps) Take(ctx context.Context, run *step.Run, params Params) (*Turn, step.Outcome, error) {
	found, err := d.find(ctx, run, params)
	if err != nil {
		out, err := step.EndOrRetry(err)
		return nil, out, err
	}
	copied, others, err := d.around(run, found)
	if err != nil {
		return nil, step.Outcome{}, err
	}
	input := rollout.TurnInput{
		Holder: run.Root.Holder, OnBusy: params.OnBusy, Memory: found.Memory, Copy: copied, Others: others,
	}
	if run.State.InLine != nil {
		input.Since = run.State.InLine.Since
	}
	turn := &Turn{Target: found, deps: d, run: run}
	verdict, why := rollout.Decide(input)
	switch verdict {
	case rollout.Begin:
		turn.settleIn(params)
		return turn, step.Outcome{}, nil
	case rollout.Mine:
		turn.Began = found.Memory
		turn.settleIn(params)
		run.State.Rollout = found.Memory.Clone()
		if rollout.Compare(found.Memory, found.Table) == rollout.Against {
			return nil, conflict(found), nil
		}
		return turn, step.Outcome{}, nil
	default:
		out, err := d.notYet(ctx, turn, verdict, why)
		return nil, out, err
	}
}

// Look reads the Service for a step that does not wait for a turn, and what this holder's runs know of their rollout.
func (d Deps) Look(ctx context.Context, run *step.Run, params Params) (*target.Target, *rollout.Memory, error) {
	found, err := d.find(ctx, run, params)
	if err != nil {
		return nil, nil, err
	}
	copied, _, err := d.around(run, found)
	return found, copied, err
}

// find reads the Service that the run acts on, and makes sure that it is the one it began with.
func (d Deps) find(ctx context.Context, run *step.Run, params Params) (*target.Target, error) {
	name := params.Service
	if name == "" {
		name = run.Root.Labels[v1alpha1.ServiceLabel]
	}
	if name == "" {
		return nil, step.Refuse(v1alpha1.ReasonInvalidParams, fmt.Sprintf(
			"service: is missing: give the param service, or label the %s with %s", run.Root.Kind, v1alpha1.ServiceLabel))
	}
	found, err := d.Targets.Find(ctx, run.CustomRun.Namespace, name)
	if errors.Is(err, target.ErrNotFound) {
		return nil, step.Refuse(v1alpha1.ReasonTargetNotFound, err.Error())
	}
	if err != nil {
		return nil, err
	}
	pinned := run.State.Target
	switch {
	case found.Deleting:
		return nil, step.Refuse(v1alpha1.ReasonTargetNotFound, found.Describe()+" is being deleted: nothing is moved any more")
	case pinned != nil && pinned.UID != found.UID:
		return nil, step.Refuse(v1alpha1.ReasonTargetNotFound,
			found.Describe()+" was deleted and made again since the run began: start a new run for the new one")
	case found.MemoryError != nil:
		return nil, step.Refuse(v1alpha1.ReasonLockLost, found.MemoryError.Error())
	}
	run.State.Target = &target.Pin{Kind: found.Kind, Name: found.Name, UID: found.UID}
	return found, nil
}

// around reads what the other runs on the Service know: what this holder's own last saw of their rollout,
// and who else is in line.
func (d Deps) around(run *step.Run, found *target.Target) (*rollout.Memory, []rollout.InLine, error) {
	runs, err := d.Runs.OnTarget(found.Namespace, found.Name)
	if err != nil {
		return nil, nil, err
	}
	copied := run.State.Rollout
	var others []rollout.InLine
	for _, other := range runs {
		state, err := step.ReadState(other)
		if err != nil || other.UID == run.CustomRun.UID || state.Holder == nil || state.Target == nil || state.Target.UID != found.UID {
			continue
		}
		switch {
		case state.Holder.UID == run.Root.UID:
			copied = rollout.Newer(copied, state.Rollout)
		case state.InLine != nil && other.Status.CompletionTime == nil && other.DeletionTimestamp == nil:
			others = append(others, rollout.InLine{Holder: *state.Holder, Since: state.InLine.Since})
		}
	}
	return copied, others, nil
}

// settleIn notes that the run has its turn: from now its own deadline counts.
func (t *Turn) settleIn(params Params) {
	t.run.State.InLine = nil
	if t.run.State.TurnSince == nil {
		now := t.run.Now
		t.run.State.TurnSince = &now
	}
	t.until = t.run.State.TurnSince.Add(params.Deadline)
}

// notYet is the outcome of a pass in which it is not, or no longer, the run's turn.
func (d Deps) notYet(ctx context.Context, turn *Turn, verdict rollout.Turn, why string) (step.Outcome, error) {
	run, found := turn.run, turn.Target
	switch verdict { //nolint:exhaustive // The turns that go on are handled by the caller.
	case rollout.Claim:
		memory := found.Memory.Clone()
		holder, at := run.Root.Holder, microTime(run.Now)
		memory.SupersededBy, memory.ClaimedAt = &holder, &at
		if err := turn.Write(ctx, target.Change{Memory: memory}); err != nil {
			return step.EndOrRetry(err)
		}
		run.State.InLine = &step.InLine{Since: run.Now}
		return busy(why+": superseding it", 0), nil
	case rollout.Queue:
		if run.State.InLine == nil {
			run.State.InLine = &step.InLine{Since: run.Now}
		}
		if run.Now.Sub(run.State.InLine.Since) > maxInLine {
			return step.Failure(v1alpha1.ReasonTargetBusy, why), nil
		}
		return busy(why, Recheck), nil
	case rollout.Busy:
		return step.Failure(v1alpha1.ReasonTargetBusy, why), nil
	case rollout.HeldTurn:
		return step.Failure(v1alpha1.ReasonHeld, "the rollout is held where it is, at "+rollout.Split(found.Table)+" ("+why+")"), nil
	case rollout.Overtaken:
		if found.Memory.HeldBy(run.Root.Holder) && found.Memory.UnderWay() {
			return step.Waiting(why+": the traffic goes back first", Recheck), nil
		}
		return step.Failure(v1alpha1.ReasonSuperseded, why), nil
	case rollout.GoingBack:
		return step.Waiting("the rollout is on its way back ("+why+")", Recheck), nil
	default:
		return step.Failure(v1alpha1.ReasonLockLost, why+": set the split as you want it, and start a new run"), nil
	}
}

func busy(why string, after time.Duration) step.Outcome {
	out := step.Waiting(why, after)
	out.Reason = v1alpha1.ReasonTargetBusy
	return out
}

func conflict(found *target.Target) step.Outcome {
	who := ""
	if found.LastEditor != "" && found.LastEditor != target.FieldManager {
		who = " (last edit by " + found.LastEditor + ")"
	}
	return step.Failure(v1alpha1.ReasonConflict, fmt.Sprintf(
		"somebody changed the split by hand%s: it is %s, the rollout had set %s; it stays as it is, and the rollout does not go on",
		who, rollout.Split(found.Table), rollout.Split(found.Memory.Table)))
}

// Memory is a copy of the rollout's memory, to be changed and written; a new one if this run begins the rollout.
func (t *Turn) Memory() (*rollout.Memory, error) {
	if t.Began != nil {
		return t.Began.Clone(), nil
	}
	memory, err := rollout.Start(rollout.Found{
		Table: t.Table, Served: t.Served(), LatestReady: t.LatestReady(), Last: t.Target.Memory,
	}, t.run.Root.Holder, t.run.ServiceAccount(), false, t.run.Now)
	if err != nil {
		return nil, step.Refuse(v1alpha1.ReasonInvalidParams, err.Error())
	}
	return memory, nil
}

// Deadline is when the step's time is up.
func (t *Turn) Deadline() time.Time { return t.until }

// Late reports whether the step's time is up.
func (t *Turn) Late() bool { return !t.run.Now.Before(t.until) }

// Recheck is when to look again while waiting for Knative: soon enough, and never after the deadline.
func (t *Turn) Recheck() time.Duration {
	return max(min(Recheck, t.until.Sub(t.run.Now)), 10*time.Millisecond)
}

// Write writes to the Service for the run's service account, if that may; what it returns is for step.EndOrRetry.
func (t *Turn) Write(ctx context.Context, change target.Change) error {
	subject := access.Subject{Namespace: t.Namespace, ServiceAccount: t.run.ServiceAccount()}
	if err := t.deps.Write(ctx, subject, t.Target, change); err != nil {
		return err
	}
	if change.Memory.HeldBy(t.run.Root.Holder) {
		t.run.State.Rollout = change.Memory.Clone()
	}
	return nil
}

// Write writes to a target for a service account, if that may.
func (d Deps) Write(ctx context.Context, subject access.Subject, t *target.Target, change target.Change) error {
	action := access.Action{Verb: "patch", Group: "serving.knative.dev", Resource: "services", Name: t.Name}
	if err := d.Access.Allowed(ctx, subject, action); err != nil {
		return err
	}
	if change.Table != nil {
		if err := rollout.CheckTable(change.Table, t.Name, t.Namespace); err != nil {
			return step.Refuse(v1alpha1.ReasonInvalidParams, err.Error())
		}
	}
	return d.refused(t, d.Targets.Write(ctx, t, change))
}

// refused turns an answer of the API server that no other try changes into an error for people.
func (d Deps) refused(t *target.Target, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return step.Refuse(v1alpha1.ReasonTargetNotFound, t.Describe()+" is gone")
	case apierrors.IsForbidden(err):
		return step.Refuse(v1alpha1.ReasonNotAllowed, "the cluster refused the change: "+err.Error())
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return step.Refuse(v1alpha1.ReasonInvalidParams, "Knative refused the change: "+err.Error())
	default:
		return err
	}
}

// OnTarget names the Service for an Event.
func (t *Turn) OnTarget() *types.NamespacedName {
	return &types.NamespacedName{Namespace: t.Namespace, Name: t.Name}
}

// DryRun asks the API server, and Knative's webhook, whether they would take a change, and what they would make of it.
// The error is for step.EndOrRetry.
func (t *Turn) DryRun(ctx context.Context, change target.Change) (*target.Target, error) {
	would, err := t.deps.Targets.DryRun(ctx, t.Target, change)
	return would, t.deps.refused(t.Target, err)
}
