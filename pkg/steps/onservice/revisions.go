// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package onservice

import (
	"context"
	"fmt"
	"strings"

	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

// Names that stand for a revision; a leading "@" is accepted.
const (
	Stable    = "stable"
	Candidate = "candidate"
	Previous  = "previous"
	Latest    = "latest"
)

// Resolve finds the name of the revision that a word stands for, or takes it for a name. Only names and the memory are
// looked at; whether the revision exists is for Revision to say.
func (t *Turn) Resolve(word string, memory *rollout.Memory) (string, error) {
	name := ""
	switch plain := strings.TrimPrefix(word, "@"); plain {
	case Stable:
		name = memory.Stable
	case Candidate:
		if name = memory.Candidate; name == "" && memory.Deploy == nil {
			name = t.LatestCreated()
		}
	case Previous:
		name = memory.Previous
	case Latest:
		name = t.LatestReady()
	default:
		return plain, nil
	}
	if name == "" {
		return "", step.Refuse(v1alpha1.ReasonRevisionMissing, fmt.Sprintf("%s has no %s revision", t.Describe(), strings.TrimPrefix(word, "@")))
	}
	return name, nil
}

// Revision reads a revision of the Service, live. One that is not there, or is another Service's, is an error.
func (t *Turn) Revision(ctx context.Context, name string) (*servingv1.Revision, error) {
	revision, owned, err := t.deps.Targets.Revision(ctx, t.Target, name)
	switch {
	case err != nil:
		return nil, err
	case revision == nil:
		return nil, step.Refuse(v1alpha1.ReasonRevisionMissing, fmt.Sprintf(
			"there is no revision %s: it was never made, or Knative has removed it (config-gc)", name))
	case !owned:
		return nil, step.Refuse(v1alpha1.ReasonInvalidParams, fmt.Sprintf("revision %s does not belong to %s", name, t.Describe()))
	default:
		return revision, nil
	}
}

// Blocked looks for a target in the table that is not ready: one such target stops Knative from programming the whole
// Route (serving, route.configureTraffic). Those of the rollout itself are not looked at.
func (t *Turn) Blocked(ctx context.Context, memory *rollout.Memory, table []rollout.Entry) error {
	seen := map[string]bool{"": true, memory.Candidate: true, memory.Stable: true}
	for _, entry := range table {
		if seen[entry.Revision] {
			continue
		}
		seen[entry.Revision] = true
		revision, _, err := t.deps.Targets.Revision(ctx, t.Target, entry.Revision)
		if err != nil {
			return err
		}
		if revision != nil && revision.IsReady() {
			continue
		}
		what := "does not exist"
		if revision != nil {
			what = "is not ready"
		}
		return step.Refuse(v1alpha1.ReasonRouteBlocked, fmt.Sprintf(
			"revision %s, in the split of %s, %s: Knative programs no split with it; take it out, or make it ready",
			entry.Revision, t.Describe(), what))
	}
	return nil
}
