// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package settraffic is the kind SetTraffic: it sets the split, and is done when the ingress has it.
package settraffic

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/onservice"
	"github.com/sluice-dev/sluice/pkg/steps/step"
	"github.com/sluice-dev/sluice/pkg/target"
)

const defaultDeadline = 2 * time.Minute

// Kind is the kind SetTraffic.
func Kind(deps onservice.Deps) step.Kind {
	kind, _ := v1alpha1.FindKind(v1alpha1.SetTraffic)
	return step.Kind{Kind: kind, New: func(params *step.Params) step.Step { return newStep(deps, params) }}
}

// Params are SetTraffic's.
type Params struct {
	onservice.Params
	// Traffic gives revisions, by name or word, their percentages.
	Traffic []wanted
	// Tags gives revisions, by name or word, a tag.
	Tags [][2]string
}

type wanted struct {
	revision string
	percent  int64
}

type setTraffic struct {
	onservice.Deps
	params Params
}

func newStep(deps onservice.Deps, given *step.Params) step.Step {
	params := Params{
		Params: onservice.ReadParams(given, defaultDeadline),
		Tags:   given.Assignments("tags", "candidate=preview"),
	}
	for i, pair := range given.Assignments("traffic", "candidate=10") {
		percent, err := rollout.ParsePercent(pair[1])
		if err != nil {
			given.Problem("traffic[%d]: %s: %v", i, pair[0], err)
			continue
		}
		params.Traffic = append(params.Traffic, wanted{revision: pair[0], percent: percent})
	}
	if len(params.Traffic) == 0 && len(params.Tags) == 0 {
		given.Problem("traffic: is missing: write for example [\"candidate=10\"]; what is left goes to stable")
	}
	return &setTraffic{Deps: deps, params: params}
}

// Reconcile does one pass.
func (s *setTraffic) Reconcile(ctx context.Context, run *step.Run) (step.Outcome, error) {
	turn, out, err := s.Take(ctx, run, s.params.Params)
	if turn == nil {
		return out, err
	}
	if memory := turn.Began; memory != nil && memory.Last != nil && memory.Last.By == run.CustomRun.UID {
		return waitForIngress(turn, memory.Last.Previous, true), nil
	}
	memory, table, err := s.plan(turn)
	if err != nil {
		return step.EndOrRetry(err)
	}
	waiting, err := s.ready(ctx, turn, memory, table)
	switch {
	case err != nil:
		return step.EndOrRetry(err)
	case waiting != "" && turn.Late():
		return step.Failure(v1alpha1.ReasonNotReady, waiting+" by the deadline; the split is still "+rollout.Split(turn.Table)), nil
	case waiting != "":
		return step.Waiting(waiting, turn.Recheck()), nil
	case slices.Equal(rollout.Pin(turn.Table, turn.LatestReady()), rollout.Pin(table, turn.LatestReady())):
		return waitForIngress(turn, rollout.Split(table), false), nil
	}
	previous := rollout.Split(rollout.Pin(turn.Table, turn.LatestReady()))
	memory.Table, memory.Last = table, &rollout.Change{By: run.CustomRun.UID, Previous: previous}
	if err := turn.Write(ctx, target.Change{Memory: memory, Table: table}); err != nil {
		return step.EndOrRetry(err)
	}
	out = step.Working(fmt.Sprintf("The split was %s and is to be %s: waiting for the ingress", previous, rollout.Split(table)), turn.Recheck())
	out.Events = []step.Event{{
		Reason: v1alpha1.EventSplitChanged, Message: fmt.Sprintf("The split was %s and is now %s", previous, rollout.Split(table)), OnTarget: turn.OnTarget(),
	}}
	return out, nil
}

// Cancel goes back.
func (s *setTraffic) Cancel(ctx context.Context, run *step.Run) (step.Outcome, error) {
	return s.Deps.Cancel(ctx, run, s.params.Params)
}

// plan resolves the words and computes the table.
func (s *setTraffic) plan(turn *onservice.Turn) (*rollout.Memory, []rollout.Entry, error) {
	memory, err := turn.Memory()
	if err != nil {
		return nil, nil, err
	}
	request := rollout.Request{Service: turn.Name, Namespace: turn.Namespace}
	for _, wanted := range s.params.Traffic {
		name, err := turn.Resolve(wanted.revision, memory)
		if err != nil {
			return nil, nil, err
		}
		request.Shares = append(request.Shares, rollout.Share{Revision: name, Percent: wanted.percent})
	}
	for _, pair := range s.params.Tags {
		name, err := turn.Resolve(pair[0], memory)
		if err != nil {
			return nil, nil, err
		}
		request.Tags = append(request.Tags, rollout.TagOf{Revision: name, Tag: pair[1]})
	}
	if memory.Candidate == "" {
		memory.Candidate = request.Candidate(memory.Stable)
	}
	table, err := rollout.Plan(memory, turn.Table, request)
	if err != nil {
		return nil, nil, step.Refuse(v1alpha1.ReasonInvalidParams, err.Error())
	}
	return memory, table, nil
}

// ready makes sure that every revision which the table newly names exists, is the Service's and is ready.
func (s *setTraffic) ready(ctx context.Context, turn *onservice.Turn, memory *rollout.Memory, table []rollout.Entry) (string, error) {
	if err := turn.Blocked(ctx, memory, turn.Table); err != nil {
		return "", err
	}
	checked := map[string]bool{"": true}
	for _, entry := range table {
		name := entry.Revision
		if checked[name] || (rollout.ShareOf(table, name) <= rollout.ShareOf(turn.Table, name) && rollout.Has(turn.Table, name)) {
			continue
		}
		checked[name] = true
		revision, err := turn.Revision(ctx, name)
		if err != nil {
			return "", err
		}
		if reason, message := onservice.NeverReady(revision); reason != "" {
			return "", step.Refuse(v1alpha1.ReasonRevisionFailed, fmt.Sprintf("revision %s failed (%s): %s", name, reason, message))
		}
		if !revision.IsReady() {
			return "revision " + name + " is not ready", nil
		}
	}
	return "", nil
}

// waitForIngress is the end of the step, once the ingress has the table.
func waitForIngress(turn *onservice.Turn, previous string, changed bool) step.Outcome {
	split := rollout.Split(rollout.Pin(turn.Table, turn.LatestReady()))
	results := map[string]string{"traffic": split, "previous": previous, "changed": strconv.FormatBool(changed)}
	settled, missing := turn.Settled()
	switch {
	case settled && changed:
		return step.Success("The split is "+split+", and the ingress has it", results)
	case settled:
		return step.Success("The split was "+split+" already", results)
	case turn.Late():
		return step.Failure(v1alpha1.ReasonDeadlineExceeded, "The split is to be "+split+", and by the deadline "+missing).With(results)
	default:
		return step.Working("The split is to be "+split+": "+missing, turn.Recheck())
	}
}
