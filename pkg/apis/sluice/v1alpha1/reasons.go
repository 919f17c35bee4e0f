// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reason says in one word why a run is where it is. Reasons are API: a pipeline's finally reads them as
// $(tasks.NAME.reason), every task after it as the result "reason".
type Reason string

// On the way: the Succeeded condition is Unknown.
const (
	// ReasonRunning: the step is at work.
	ReasonRunning Reason = "Running"
	// ReasonWaiting: the step waits for somebody or something else, which its message names.
	ReasonWaiting Reason = "Waiting"
	// ReasonRetrying: an attempt failed and Tekton's retries allow another.
	ReasonRetrying Reason = "Retrying"
)

// Ends: the Succeeded condition is True for ReasonSucceeded, else False.
const (
	// ReasonSucceeded: the step did what it was asked.
	ReasonSucceeded Reason = "Succeeded"
	// ReasonInvalidParams: the params, or the run around them, cannot be right. Nothing was changed.
	ReasonInvalidParams Reason = "InvalidParams"
	// ReasonNotAllowed: the run's service account may not do what the step needs.
	ReasonNotAllowed Reason = "NotAllowed"
	// ReasonTargetNotFound: there is no Service of that name, or it is no longer the one the run began with.
	ReasonTargetNotFound Reason = "TargetNotFound"
	// ReasonAmbiguousTarget: two objects answer to the name.
	ReasonAmbiguousTarget Reason = "AmbiguousTarget"
	// ReasonTargetBusy: another rollout has the Service, and the run was not to wait (or waited until its deadline).
	ReasonTargetBusy Reason = "TargetBusy"
	// ReasonRouteBlocked: a target in the traffic table that is not ours keeps Knative from programming the Route.
	ReasonRouteBlocked Reason = "RouteBlocked"
	// ReasonConflict: somebody else changed what the rollout works on. Their change stays.
	ReasonConflict Reason = "Conflict"
	// ReasonLockLost: the rollout's memory is gone from the Service, so nobody knows the way back any more.
	ReasonLockLost Reason = "LockLost"
	// ReasonSuperseded: a newer rollout took the Service with onBusy: supersede.
	ReasonSuperseded Reason = "Superseded"
	// ReasonBuildFailed: the image could not be built.
	ReasonBuildFailed Reason = "BuildFailed"
	// ReasonRevisionFailed: the revision will never be ready.
	ReasonRevisionFailed Reason = "RevisionFailed"
	// ReasonRevisionMissing: a revision that the step needs does not exist.
	ReasonRevisionMissing Reason = "RevisionMissing"
	// ReasonNotReady: the revision was not ready by the deadline.
	ReasonNotReady Reason = "NotReady"
	// ReasonDeadlineExceeded: what the step waited for did not happen by its deadline.
	ReasonDeadlineExceeded Reason = "DeadlineExceeded"
	// ReasonGateFailed: the metrics show harm.
	ReasonGateFailed Reason = "GateFailed"
	// ReasonGateInconclusive: the deadline came before the metrics showed enough.
	ReasonGateInconclusive Reason = "GateInconclusive"
	// ReasonMetricsUnavailable: the numbers cannot be had at all.
	ReasonMetricsUnavailable Reason = "MetricsUnavailable"
	// ReasonHeld: the traffic stays where it is, as asked, for a person to decide.
	ReasonHeld Reason = "Held"
	// ReasonRolledBack: the traffic went back to what it was before.
	ReasonRolledBack Reason = "RolledBack"
	// ReasonRollbackFailed: the traffic should have gone back and has not, so far.
	ReasonRollbackFailed Reason = "RollbackFailed"
	// ReasonCancelled is Tekton's: any other reason makes the PipelineRun Failed instead of Cancelled.
	ReasonCancelled Reason = "CustomRunCancelled"
	// ReasonTimedOut is Tekton's, for the run's own timeout.
	ReasonTimedOut Reason = "CustomRunTimedOut"
	// ReasonWorkspaceNotSupported is Tekton's, for a workspace given to a kind that uses none.
	ReasonWorkspaceNotSupported Reason = "CustomRunWorkspaceNotSupported"
)

// Reasons of Events on the Service that a rollout works on, beside those above.
const (
	// EventRolloutStarted: a rollout began.
	EventRolloutStarted = "RolloutStarted"
	// EventRolloutPromoted: the candidate has the traffic for good.
	EventRolloutPromoted = "RolloutPromoted"
	// EventRolloutRolledBack: the traffic is back where it was.
	EventRolloutRolledBack = "RolloutRolledBack"
	// EventRolloutHeld: the rollout ended with the traffic where it was.
	EventRolloutHeld = "RolloutHeld"
	// EventRolloutAbandoned: the run that held the rollout is over and had not ended it: the controller takes it back.
	EventRolloutAbandoned = "RolloutAbandoned"
	// EventSplitChanged: the step wrote a new split.
	EventSplitChanged = "SplitChanged"
	// EventForeignChange: somebody changed entries that are not the rollout's; they are kept.
	EventForeignChange = "ForeignChange"
)

// Outcome is how a rollout ended. Each has exactly one.
type Outcome string

const (
	// Promoted: the candidate has its final share.
	Promoted Outcome = "Promoted"
	// RolledBack: the table found is restored.
	RolledBack Outcome = "RolledBack"
	// Held: the traffic stays; the next rollout inherits stable and the table found.
	Held Outcome = "Held"
)

// Retryable reports whether Tekton's retries may try an attempt that ended with this reason again. A verdict on a
// revision is never tried again, nor is bad input.
func (r Reason) Retryable() bool {
	switch r { //nolint:exhaustive // Everything else is final.
	case ReasonNotReady, ReasonConflict, ReasonBuildFailed, ReasonMetricsUnavailable:
		return true
	default:
		return false
	}
}
