// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package awaitready is the kind AwaitReady: it waits until a revision, and the Route to it, are really ready, and fails
// as soon as they never will be. With a tag it makes the revision reachable for a look.
package awaitready

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"knative.dev/serving/pkg/apis/autoscaling"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/onservice"
	"github.com/sluice-dev/sluice/pkg/steps/step"
	"github.com/sluice-dev/sluice/pkg/target"
)

const defaultDeadline = 10 * time.Minute

// Kind is the kind AwaitReady.
func Kind(deps onservice.Deps) step.Kind {
	kind, _ := v1alpha1.FindKind(v1alpha1.AwaitReady)
	return step.Kind{Kind: kind, New: func(params *step.Params) step.Step { return newStep(deps, params) }}
}

type awaitReady struct {
	onservice.Deps
	params onservice.Params
	// revision is a name or a word.
	revision string
	// minReplicas is -1 for the revision's own min-scale.
	minReplicas int64
	tag         string
}

func newStep(deps onservice.Deps, given *step.Params) step.Step {
	return &awaitReady{
		Deps: deps, params: onservice.ReadParams(given, defaultDeadline),
		revision:    given.String("revision", onservice.Candidate),
		minReplicas: given.Int("minReplicas", -1),
		tag:         given.String("tag", ""),
	}
}

// Reconcile does one pass.
func (a *awaitReady) Reconcile(ctx context.Context, run *step.Run) (step.Outcome, error) {
	turn, out, err := a.Take(ctx, run, a.params)
	if turn == nil {
		return out, err
	}
	out, err = a.await(ctx, turn, run)
	if err != nil {
		return step.EndOrRetry(err)
	}
	return out, nil
}

// Cancel goes back.
func (a *awaitReady) Cancel(ctx context.Context, run *step.Run) (step.Outcome, error) {
	return a.Deps.Cancel(ctx, run, a.params)
}

// await is one pass with the turn at hand.
func (a *awaitReady) await(ctx context.Context, turn *onservice.Turn, run *step.Run) (step.Outcome, error) {
	memory, err := turn.Memory()
	if err != nil {
		return step.Outcome{}, err
	}
	name, err := turn.Resolve(a.revision, memory)
	if err != nil {
		return step.Outcome{}, err
	}
	if a.tag != "" {
		if err := rollout.CheckTag(a.tag, turn.Name, turn.Namespace); err != nil {
			return step.Outcome{}, step.Refuse(v1alpha1.ReasonInvalidParams, err.Error())
		}
	}
	revision, err := turn.Revision(ctx, name)
	if err != nil {
		return step.Outcome{}, err
	}
	if problem := a.impossible(revision, turn.Table); problem != "" {
		return step.Outcome{}, step.Refuse(v1alpha1.ReasonInvalidParams, problem)
	}
	if reason, message := onservice.NeverReady(revision); reason != "" {
		return step.Failure(v1alpha1.ReasonRevisionFailed, fmt.Sprintf("revision %s failed (%s): %s", name, reason, message)), nil
	}
	if waiting := notReady(revision); waiting != "" {
		return wait(turn, waiting), nil
	}
	table, err := a.table(turn, memory, name)
	if err != nil {
		return step.Outcome{}, err
	}
	if !slices.Equal(table, turn.Table) {
		if err := turn.Blocked(ctx, memory, table); err != nil {
			return step.Outcome{}, err
		}
		memory.Table = table
		if memory.Candidate == "" {
			memory.Candidate = name
		}
		return step.Working("Revision "+name+" is ready: naming it in the Route", turn.Recheck()),
			turn.Write(ctx, target.Change{Memory: memory, Table: table})
	}
	if waiting := a.notServed(turn, revision); waiting != "" {
		return wait(turn, waiting), nil
	}
	return a.ready(turn, revision), nil
}

// impossible tells why the revision can never have the replicas asked for.
func (a *awaitReady) impossible(revision *servingv1.Revision, table []rollout.Entry) string {
	least := minScale(revision)
	if a.minReplicas > least && rollout.ShareOf(table, revision.Name) == 0 {
		return fmt.Sprintf("minReplicas: revision %s has no traffic and keeps %d replicas (%s), so it will never have %d: "+
			"set the annotation in the template, or leave minReplicas out", revision.Name, least, autoscaling.MinScaleAnnotationKey, a.minReplicas)
	}
	return ""
}

func minScale(revision *servingv1.Revision) int64 {
	least, err := strconv.ParseInt(revision.Annotations[autoscaling.MinScaleAnnotationKey], 10, 32)
	if err != nil {
		return 0
	}
	return least
}

// table is the split with the revision named in it: an entry that follows the latest revision kept it active while it
// started, and a tag makes it reachable.
func (a *awaitReady) table(turn *onservice.Turn, memory *rollout.Memory, name string) ([]rollout.Entry, error) {
	ours := turn.Began != nil && name == memory.Candidate && name != memory.Stable
	if !ours && a.tag == "" {
		return turn.Table, nil
	}
	if a.tag == "" {
		return rollout.Name(turn.Table, name, ""), nil
	}
	named := turn.Table
	if ours {
		named = rollout.Name(named, name, "")
	}
	table, err := rollout.PutTag(memory, named, rollout.TagOf{Revision: name, Tag: a.tag})
	if err != nil {
		return nil, step.Refuse(v1alpha1.ReasonInvalidParams, err.Error())
	}
	return table, nil
}

// notReady tells what the revision itself still lacks.
func notReady(revision *servingv1.Revision) string {
	if revision.Status.ObservedGeneration != revision.Generation {
		return "Knative has not looked at revision " + revision.Name + " yet"
	}
	if revision.IsReady() {
		return ""
	}
	waiting := "revision " + revision.Name + " is not ready"
	if condition := revision.Status.GetCondition(servingv1.RevisionConditionReady); condition != nil && condition.Reason != "" {
		waiting += " (" + condition.Reason
		if condition.Message != "" {
			waiting += ": " + condition.Message
		}
		waiting += ")"
	}
	return waiting
}

// notServed tells what the Route and the replicas still lack.
func (a *awaitReady) notServed(turn *onservice.Turn, revision *servingv1.Revision) string {
	if settled, missing := turn.Settled(); !settled {
		return missing
	}
	if a.tag != "" && turn.URL(a.tag, revision.Name) == "" {
		return "the Route does not map tag " + a.tag + " to " + revision.Name + " yet"
	}
	least := a.minReplicas
	if least < 0 {
		least = minScale(revision)
	}
	if have := replicas(revision); have < least {
		return fmt.Sprintf("revision %s has %d of %d replicas", revision.Name, have, least)
	}
	return ""
}

func replicas(revision *servingv1.Revision) int64 {
	if revision.Status.ActualReplicas == nil {
		return 0
	}
	return int64(*revision.Status.ActualReplicas)
}

// ready is the good end.
func (a *awaitReady) ready(turn *onservice.Turn, revision *servingv1.Revision) step.Outcome {
	digest := ""
	if statuses := revision.Status.ContainerStatuses; len(statuses) > 0 {
		digest = statuses[0].ImageDigest
	}
	url := turn.URL(a.tag, revision.Name)
	message := "Revision " + revision.Name + " is ready"
	if a.tag != "" {
		message += ", at " + url
	}
	return step.Success(message, map[string]string{
		"revision": revision.Name, "url": url, "address": turn.Address(a.tag), "imageDigest": digest,
		"replicas": strconv.FormatInt(replicas(revision), 10),
	})
}

// wait waits until the step's deadline, and fails after it.
func wait(turn *onservice.Turn, waiting string) step.Outcome {
	if turn.Late() {
		return step.Failure(v1alpha1.ReasonNotReady, waiting+", and the deadline is over")
	}
	return step.Working(waiting+"; until "+turn.Deadline().UTC().Format(time.TimeOnly), turn.Recheck())
}
