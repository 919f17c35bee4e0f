// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package step is what every kind of custom task has in common: what it is given, what it answers, and how its params
// are read. A step is called again and again until it has an end; it re-derives from the world what to do, does at most
// one write a pass, and never waits itself.
package step

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/target"
)

// Kind is one kind of custom task: what it is to its users, and how it is made from a run's params.
type Kind struct {
	v1alpha1.Kind
	// New reads the params, and returns every mistake in them together as an error of kind NeedsUser.
	New func(params *Params) Step
}

// Step is one run of a kind.
type Step interface {
	// Reconcile does one pass. An error means that the pass is tried again, with back-off; it never ends the run.
	Reconcile(ctx context.Context, run *Run) (Outcome, error)
	// Cancel does one pass of stopping: it answers Running while it cleans up, and any end once it has. The reason of
	// the end is then replaced by what made the run stop, unless it is ReasonRollbackFailed.
	Cancel(ctx context.Context, run *Run) (Outcome, error)
}

// Run is what a step knows of the run that it is.
type Run struct {
	// CustomRun is a copy: a step reads it and writes nothing into it.
	CustomRun *v1beta1.CustomRun
	// Root is the run at the top, which holds the rollout.
	Root Root
	// Now is the time of this pass.
	Now time.Time
	// Started is when this attempt began.
	Started time.Time
	// Until is when the run's own timeout ends, zero if it has none.
	Until time.Time
	// State is what survives between passes; a step changes it in place.
	State *State
}

// Root is the run at the top of the owners of a run.
type Root struct {
	rollout.Holder
	// Labels are those of the root object.
	Labels map[string]string
	// Until is when the root's own timeout ends, zero if it has none.
	Until time.Time
	// Timeouts is how the root's timeouts are written, for messages.
	Timeouts string
}

// ServiceAccount is whose rights the run has.
func (r *Run) ServiceAccount() string {
	if name := r.CustomRun.Spec.ServiceAccountName; name != "" {
		return name
	}
	return "default"
}

// Remaining is how long the run may still go on, by its own timeout and its root's; false if nothing limits it.
func (r *Run) Remaining() (time.Duration, bool) {
	until := r.Until
	if until.IsZero() || (!r.Root.Until.IsZero() && r.Root.Until.Before(until)) {
		until = r.Root.Until
	}
	if until.IsZero() {
		return 0, false
	}
	return until.Sub(r.Now), true
}

// StateVersion is written into every State. A later release reads all versions up to its own.
const StateVersion = 1

// State is a run's memory, in status.extraFields of its CustomRun.
type State struct {
	Version int `json:"version"`
	// Holder is the root run, found once.
	Holder *rollout.Holder `json:"holder,omitempty"`
	// Target is the very object the run began with.
	Target *target.Pin `json:"target,omitempty"`
	// Rollout is a copy of the rollout's memory, as last seen. If the original is gone, the copy tells.
	Rollout *rollout.Memory `json:"rollout,omitempty"`
	// InLine is set while the run waits for its turn on the target.
	InLine *InLine `json:"inLine,omitempty"`
	// TurnSince is when the run got its turn on the target: from then its deadline counts.
	TurnSince *time.Time `json:"turnSince,omitempty"`
	// Stopping is set once the run has been told to stop, or its time is up.
	Stopping *Stopping `json:"stopping,omitempty"`
	// Own is what the kind pins for itself.
	Own json.RawMessage `json:"own,omitempty"`
}

// InLine is a place in the waiting line for a target.
type InLine struct {
	Since time.Time `json:"since"`
}

// Stopping says since when a run is being stopped, and how it is going to end.
type Stopping struct {
	Since  time.Time       `json:"since"`
	Reason v1alpha1.Reason `json:"reason"`
}

// Pinned reads what the kind pinned for itself into its type.
func Pinned[T any](state *State) (T, error) {
	var own T
	if len(state.Own) == 0 {
		return own, nil
	}
	err := json.Unmarshal(state.Own, &own)
	return own, err
}

// PinOwn writes what the kind pins for itself.
func PinOwn[T any](state *State, own T) error {
	data, err := json.Marshal(own)
	if err != nil {
		return err
	}
	state.Own = data
	return nil
}

// Phase is how far a run is.
type Phase int

const (
	// Running: there is more to do, or to wait for.
	Running Phase = iota
	// Succeeded is a good end.
	Succeeded
	// Failed is a bad one.
	Failed
)

// Outcome is what one pass of a step comes to.
type Outcome struct {
	Phase  Phase
	Reason v1alpha1.Reason
	// Cause is a second reason: why a run that went back did, for example.
	Cause string
	// Message is the user interface: one line, with no time in it that changes by itself.
	Message string
	// Results are the kind's; those missing are empty.
	Results map[string]string
	// After is when to look again if nothing happens before, as a duration from now; zero: only when something happens.
	After time.Duration
	// Events are what just happened.
	Events []Event
}

// Event is something that just happened, for people: in the past tense.
type Event struct {
	Warning bool
	Reason  string
	Message string
	// OnTarget puts the Event on the target too.
	OnTarget *types.NamespacedName
}

// Working is the outcome of a pass after which the step has more to do at once, or when the world has changed.
func Working(message string, after time.Duration) Outcome {
	return Outcome{Reason: v1alpha1.ReasonRunning, Message: message, After: after}
}

// Waiting is the outcome of a pass that waits for somebody or something else.
func Waiting(message string, after time.Duration) Outcome {
	return Outcome{Reason: v1alpha1.ReasonWaiting, Message: message, After: after}
}

// Success is a good end.
func Success(message string, results map[string]string) Outcome {
	return Outcome{Phase: Succeeded, Reason: v1alpha1.ReasonSucceeded, Message: message, Results: results}
}

// Failure is a bad end.
func Failure(reason v1alpha1.Reason, message string) Outcome {
	return Outcome{Phase: Failed, Reason: reason, Message: message}
}

// With adds results to an outcome.
func (o Outcome) With(results map[string]string) Outcome {
	o.Results = results
	return o
}

// NeedsUser is an error that only a person can mend: it ends the run with its reason.
type NeedsUser struct {
	Reason  v1alpha1.Reason
	Message string
}

// Error is the message.
func (e *NeedsUser) Error() string { return e.Message }

// Refuse makes a NeedsUser.
func Refuse(reason v1alpha1.Reason, message string) error {
	return &NeedsUser{Reason: reason, Message: message}
}

// EndOrRetry turns an error into an outcome if only a person can mend it; any other error is for another try.
func EndOrRetry(err error) (Outcome, error) {
	var needsUser *NeedsUser
	if errors.As(err, &needsUser) {
		return Failure(needsUser.Reason, needsUser.Message), nil
	}
	return Outcome{}, err
}
