// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package deployrevision is the kind DeployRevision: it stamps a revision out of template and image, and moves no
// traffic. It begins a rollout.
//
// The order of its writes is what keeps the traffic where it is. First stable is pinned by name, and the Route must say
// so; only then the template is written. Written together they are not atomic: Knative updates the Configuration first,
// and a failed write of the Route leaves the new revision with everything (serving, pkg/reconciler/service).
package deployrevision

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/onservice"
	"github.com/sluice-dev/sluice/pkg/steps/step"
	"github.com/sluice-dev/sluice/pkg/target"
)

const defaultDeadline = 2 * time.Minute

// Kind is the kind DeployRevision.
func Kind(deps onservice.Deps) step.Kind {
	kind, _ := v1alpha1.FindKind(v1alpha1.DeployRevision)
	return step.Kind{Kind: kind, New: func(params *step.Params) step.Step { return newStep(deps, params) }}
}

type deployRevision struct {
	onservice.Deps
	params onservice.Params
	change change
}

func newStep(deps onservice.Deps, given *step.Params) step.Step {
	deploy := &deployRevision{
		Deps: deps, params: onservice.ReadParams(given, defaultDeadline),
		change: change{
			Image: given.String("image", ""), Patch: given.Text("template"),
			Commit: given.String("commit", ""), Name: given.String("name", ""),
		},
	}
	if deploy.change.Image == "" && deploy.change.Patch == "" {
		given.Problem("image: is missing: give image, or template, or both")
	}
	if image := deploy.change.Image; image != "" {
		if _, err := name.ParseReference(image, name.WeakValidation); err != nil {
			given.Problem("image: %q is not an image: write for example registry/app@sha256:...", image)
		}
	}
	return deploy
}

// Reconcile does one pass.
func (d *deployRevision) Reconcile(ctx context.Context, run *step.Run) (step.Outcome, error) {
	turn, out, err := d.Take(ctx, run, d.params)
	if turn == nil {
		return out, err
	}
	memory, err := turn.Memory()
	if err != nil {
		return step.EndOrRetry(err)
	}
	if memory.Deploy != nil && memory.Deploy.By == run.CustomRun.UID {
		out, err = d.adopt(ctx, turn, memory)
	} else {
		out, err = d.deploy(ctx, turn, memory, run)
	}
	if err != nil {
		return step.EndOrRetry(err)
	}
	return out, nil
}

// Cancel goes back.
func (d *deployRevision) Cancel(ctx context.Context, run *step.Run) (step.Outcome, error) {
	return d.Deps.Cancel(ctx, run, d.params)
}

// deploy is the part of the step before the template is written: one write a pass.
func (d *deployRevision) deploy(ctx context.Context, turn *onservice.Turn, memory *rollout.Memory, run *step.Run) (step.Outcome, error) {
	wanted, err := d.change.apply(turn.Name, turn.Template)
	if err != nil {
		return step.Outcome{}, step.Refuse(v1alpha1.ReasonInvalidParams, err.Error())
	}
	changed := !same(turn.Template, wanted)
	if !changed {
		// An equal template makes no revision, so there must be one already, and it must not have failed.
		existing := turn.LatestCreated()
		if existing == "" {
			return late(turn, "Knative has not made the revision of the present template yet"), nil
		}
		revision, err := turn.Revision(ctx, existing)
		if err != nil {
			return step.Outcome{}, err
		}
		if reason, _ := onservice.NeverReady(revision); reason == "" {
			memory.Candidate = existing
			memory.Deploy = &rollout.Deploy{By: run.CustomRun.UID}
			return begun(turn, "The template is that of "+existing+" already"), turn.Write(ctx, target.Change{Memory: memory})
		}
		wanted = again(wanted)
	}
	prepared := memory.Stable == "" || (!rollout.Follows(turn.Table) && slices.Contains(turn.Table, rollout.Entry{}))
	if !prepared {
		if _, err := turn.DryRun(ctx, target.Change{Template: &wanted}); err != nil {
			return step.Outcome{}, err
		}
		if err := turn.Blocked(ctx, memory, turn.Table); err != nil {
			return step.Outcome{}, err
		}
		memory.Table = rollout.Prepare(turn.Table, memory.Stable)
		return begun(turn, "Pinning the traffic to "+memory.Stable+" before the template changes"),
			turn.Write(ctx, target.Change{Memory: memory, Table: memory.Table})
	}
	if settled, missing := turn.Settled(); !settled && memory.Stable != "" {
		return late(turn, "The traffic is being pinned to "+memory.Stable+": "+missing), nil
	}
	would, err := turn.DryRun(ctx, target.Change{Template: &wanted})
	if err != nil {
		return step.Outcome{}, err
	}
	memory.Deploy = &rollout.Deploy{By: run.CustomRun.UID, Changed: true, Hash: hash(would.Template)}
	memory.Candidate = ""
	out := step.Working("Knative makes the revision", turn.Recheck())
	return out, turn.Write(ctx, target.Change{Memory: memory, Template: &wanted})
}

// begun is the outcome of a pass that began a rollout.
func begun(turn *onservice.Turn, message string) step.Outcome {
	out := step.Working(message, turn.Recheck())
	if turn.Began == nil {
		out.Events = []step.Event{{Reason: v1alpha1.EventRolloutStarted, Message: message, OnTarget: turn.OnTarget()}}
	}
	return out
}

// adopt is the part of the step after the template was written: it finds the revision's name, and keeps it.
func (d *deployRevision) adopt(ctx context.Context, turn *onservice.Turn, memory *rollout.Memory) (step.Outcome, error) {
	if memory.Candidate != "" {
		message := "Revision " + memory.Candidate + " is made; the traffic stays at " + rollout.Split(turn.Table)
		if !memory.Deploy.Changed {
			message = "No new revision: the template is that of " + memory.Candidate + " already"
		}
		return step.Success(message, map[string]string{
			"revision": memory.Candidate, "stable": memory.Stable, "changed": strconv.FormatBool(memory.Deploy.Changed),
		}), nil
	}
	if hash(turn.Template) != memory.Deploy.Hash {
		return step.Failure(v1alpha1.ReasonConflict,
			"somebody changed the template after the step wrote it: whose revision is the candidate cannot be told; start a new run"), nil
	}
	candidate := turn.LatestCreated()
	if candidate == "" {
		return late(turn, "Knative has not made the revision yet"+configurationSays(turn)), nil
	}
	memory.Candidate = candidate
	return step.Working("Revision "+candidate+" is made", 0), turn.Write(ctx, target.Change{Memory: memory})
}

// configurationSays adds what the Configuration has to say, where it has made no revision.
func configurationSays(turn *onservice.Turn) string {
	if turn.Configuration == nil {
		return ""
	}
	condition := turn.Configuration.Status.GetCondition(servingv1.ConfigurationConditionReady)
	if condition == nil || condition.Message == "" {
		return ""
	}
	return fmt.Sprintf(" (%s: %s)", condition.Reason, condition.Message)
}

// late waits until the step's deadline, and fails after it.
func late(turn *onservice.Turn, waiting string) step.Outcome {
	if turn.Late() {
		return step.Failure(v1alpha1.ReasonDeadlineExceeded, waiting+", and the deadline is over")
	}
	return step.Working(waiting, turn.Recheck())
}
