// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
)

// HolderState is how far the run that holds a rollout is.
type HolderState string

const (
	// HolderRunning: it is not over, or a step of it is not.
	HolderRunning HolderState = "running"
	// HolderSucceeded: it is over, and went well.
	HolderSucceeded HolderState = "succeeded"
	// HolderFailed: it is over, and did not.
	HolderFailed HolderState = "failed"
	// HolderCancelled: somebody stopped it.
	HolderCancelled HolderState = "cancelled"
	// HolderTimedOut: its time was up.
	HolderTimedOut HolderState = "timed out"
	// HolderDeleted: there is no such run any more.
	HolderDeleted HolderState = "deleted"
)

// View is the target as the end of a rollout sees it.
type View struct {
	Memory *Memory
	// Now is the table that is asked for.
	Now []Entry
	// Settled says that the ingress has it.
	Settled bool
	// CandidateReady says that the candidate is ready, so that an entry of it blocks nothing.
	CandidateReady bool
	// LatestReady is the newest ready revision.
	LatestReady string
	// RolloutDuration says that Knative would shift a share of the latest revision by itself.
	RolloutDuration bool
}

// Next is what the end of a rollout does next: one write, or nothing.
type Next struct {
	// Memory and Table are to be written if Memory is not nil; a nil Table stays.
	Memory *Memory
	Table  []Entry
	// Message says what happens, or what is waited for.
	Message string
	// Abandoned says that the controller takes back what a run left behind.
	Abandoned bool
}

// End decides how a rollout goes on without its holder: nothing while the holder is at work.
func End(view View, holder HolderState, now time.Time) Next {
	memory := view.Memory
	switch {
	case !memory.UnderWay():
		return Next{}
	case memory.Back != nil:
		return FinishBack(view, now)
	case memory.SupersededBy != nil:
		next := StartBack(view, string(v1alpha1.ReasonSuperseded), now)
		next.Message = fmt.Sprintf("superseded by %s: %s", memory.SupersededBy, next.Message)
		return next
	case holder == HolderRunning:
		return Next{}
	case memory.Hold != nil:
		return outcome(memory, nil, v1alpha1.Held, memory.Hold.Cause, now, "the gate was asked to leave the traffic where it is")
	case Compare(memory, view.Now) == Against:
		return outcome(memory, nil, v1alpha1.Held, string(v1alpha1.ReasonConflict), now,
			"somebody changed the split during the rollout: it stays as it is now, "+Split(view.Now))
	case holder == HolderSucceeded:
		return succeeded(view, now)
	case memory.Stable == "":
		return outcome(memory, nil, v1alpha1.Held, "FirstDelivery", now, "this is a first delivery, so there is nothing to go back to")
	default:
		next := StartBack(view, "Abandoned", now)
		next.Abandoned = true
		next.Message = fmt.Sprintf("%s is %s and left the rollout at %s: %s", memory.Holder, holder, Split(view.Now), next.Message)
		return next
	}
}

// succeeded is the end of a rollout whose holder did all that it was to do.
func succeeded(view View, now time.Time) Next {
	memory := view.Memory
	switch {
	case memory.Candidate == "" && memory.Deploy == nil:
		return outcome(memory, nil, v1alpha1.Promoted, "", now, "the split stays as it was set")
	case memory.Candidate == "":
		return StartBack(view, "NoCandidate", now)
	case memory.Candidate != memory.Stable && ShareOf(view.Now, memory.Candidate) < memory.Final():
		return outcome(memory, nil, v1alpha1.Held, "BelowFinalShare", now, fmt.Sprintf(
			"the run ended well with %s at %d%%, below its final %d%%: the next rollout goes on from %s as stable",
			memory.Candidate, ShareOf(view.Now, memory.Candidate), memory.Final(), memory.Stable))
	}
	latest := view.LatestReady
	message := memory.Candidate + " has the traffic for good"
	switch {
	case view.RolloutDuration:
		latest = ""
		message += "; the Service stays pinned to it, since rollout-duration would shift the next revision by itself"
	case memory.Follow && latest == memory.Candidate:
		message += "; the Service follows its latest revision again"
	case memory.Follow:
		message += "; the Service stays pinned to it, since it is not the latest ready revision"
	}
	return outcome(memory, Promote(memory, view.Now, latest), v1alpha1.Promoted, "", now, message)
}

// StartBack is the write with which the traffic goes back.
func StartBack(view View, cause string, now time.Time) Next {
	memory := view.Memory.Clone()
	memory.Back = &Note{Cause: cause, Since: metav1.NewTime(now.Truncate(time.Second))}
	memory.Table = Back(view.Memory, view.Now, view.CandidateReady)
	if slices.Equal(memory.Table, view.Now) && view.Settled {
		next := FinishBack(View{Memory: memory, Now: memory.Table, Settled: true}, now)
		next.Table = memory.Table
		return next
	}
	return Next{Memory: memory, Table: memory.Table, Message: "going back to " + Split(memory.Table)}
}

// FinishBack ends a rollout that is on its way back, once the ingress has the table.
func FinishBack(view View, now time.Time) Next {
	memory := view.Memory
	if Compare(memory, view.Now) == Against {
		return outcome(memory, nil, v1alpha1.Held, string(v1alpha1.ReasonConflict), now,
			"somebody changed the split while it went back: it stays as it is now, "+Split(view.Now))
	}
	if !view.Settled {
		return Next{Message: "going back to " + Split(view.Now) + ": waiting for the ingress"}
	}
	message := "the traffic is back at " + Split(view.Now)
	if memory.Follow {
		message += "; the Service stays pinned to " + memory.Stable + " until a rollout is promoted"
	}
	return outcome(memory, nil, v1alpha1.RolledBack, memory.Back.Cause, now, message)
}

// outcome is the write that ends a rollout.
func outcome(memory *Memory, table []Entry, end v1alpha1.Outcome, cause string, now time.Time, message string) Next {
	ended := metav1.NewTime(now.Truncate(time.Second))
	memory = memory.Clone()
	memory.Outcome, memory.Cause, memory.Ended = end, cause, &ended
	if table != nil {
		memory.Table = table
	}
	return Next{Memory: memory, Table: table, Message: message}
}
