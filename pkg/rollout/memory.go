// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout is one attempt to bring a candidate onto one target: its memory, who holds it, what each step may do
// to the traffic table, and its end. Everything here is a pure function of what was read; pkg/target reads and writes.
package rollout

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
)

// MemoryVersion is written into every memory. A release reads all versions up to its own; it leaves a newer one alone.
const MemoryVersion = 1

// maxTookFrom bounds the list of superseded holders: an annotation is small, and older runs are long over.
const maxTookFrom = 16

// Holder is the run that a rollout belongs to: the root of the run that began it.
type Holder struct {
	// APIVersion and Kind are those of a PipelineRun, or of a CustomRun that runs on its own.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// UID is what decides whether two holders are one: names are used again.
	UID types.UID `json:"uid"`
}

// String names the holder for people.
func (h Holder) String() string { return h.Kind + " " + h.Name }

// Memory is what a rollout must not forget. It lives in one annotation on the object whose template the rollout
// changes, and is written in the same write as the table that it speaks of.
type Memory struct {
	Version int `json:"version"`
	// Holder is the root run of the steps that may go on with the rollout.
	Holder Holder `json:"holder"`
	// ServiceAccount is whose rights count when the controller ends the rollout.
	ServiceAccount string `json:"serviceAccount"`
	// Started is when the rollout began.
	Started metav1.Time `json:"started"`
	// Before is the whole table found.
	Before []Entry `json:"before"`
	// Follow says that the Service followed its latest revision before, and shall again once promoted.
	Follow bool `json:"follow,omitempty"`
	// Stable is the revision that served when the rollout began; empty at a first delivery.
	Stable string `json:"stable,omitempty"`
	// Candidate is the revision being rolled out; empty until it is known.
	Candidate string `json:"candidate,omitempty"`
	// Previous is the stable revision before Stable, as the last rollout left word of it.
	Previous string `json:"previous,omitempty"`
	// Table is what the rollout last wrote: anything else in the Service was written by somebody else.
	Table []Entry `json:"table"`
	// Deploy pins the template that DeployRevision wrote.
	Deploy *Deploy `json:"deploy,omitempty"`
	// Last pins the last change of the split.
	Last *Change `json:"last,omitempty"`
	// Hold is set when a gate was asked to leave the traffic where it is.
	Hold *Note `json:"hold,omitempty"`
	// SupersededBy is the holder that wants the target now.
	SupersededBy *Holder `json:"supersededBy,omitempty"`
	// ClaimedAt is when a holder claimed the target with onBusy: supersede. Whoever got in line before is superseded.
	ClaimedAt *metav1.MicroTime `json:"claimedAt,omitempty"`
	// TookFrom are the UIDs of the holders that were superseded on the way to this rollout, the newest last.
	TookFrom []types.UID `json:"tookFrom,omitempty"`
	// Back is set while the traffic is on its way back.
	Back *Note `json:"back,omitempty"`
	// Outcome is how the rollout ended; empty while it is under way.
	Outcome v1alpha1.Outcome `json:"outcome,omitempty"`
	// Cause is why it ended so.
	Cause string `json:"cause,omitempty"`
	// Ended is when.
	Ended *metav1.Time `json:"ended,omitempty"`
}

// Deploy pins a template written by DeployRevision, so that it is written once whatever happens.
type Deploy struct {
	// By is the UID of the CustomRun that wrote it.
	By types.UID `json:"by"`
	// Hash is of the template written, to tell when somebody else writes another.
	Hash string `json:"hash,omitempty"`
	// Changed says whether a template was written: an equal one is not.
	Changed bool `json:"changed"`
}

// Change pins a change of the split, so that the step that made it can still tell after a restart.
type Change struct {
	// By is the UID of the CustomRun that wrote it.
	By types.UID `json:"by"`
	// Previous is the split before, as Split writes it.
	Previous string `json:"previous"`
}

// Note says why something is so, and since when.
type Note struct {
	Cause string      `json:"cause"`
	Since metav1.Time `json:"since"`
}

// UnderWay reports whether the rollout has no end yet.
func (m *Memory) UnderWay() bool { return m != nil && m.Outcome == "" }

// HeldBy reports whether the rollout is this holder's, ended or not.
func (m *Memory) HeldBy(holder Holder) bool { return m != nil && m.Holder.UID == holder.UID }

// Final is the candidate's share, in percent, with which the rollout is complete: all that stable had.
func (m *Memory) Final() int64 {
	if m.Stable == "" {
		return 100 - sumOf(m.Before, func(e Entry) bool { return e.Revision != "" && e.Revision != m.Candidate })
	}
	return ShareOf(m.Before, m.Stable)
}

// Newer is the one of two copies that knows more: of a later rollout, or of the same one's end.
func Newer(a, b *Memory) *Memory {
	switch {
	case a == nil:
		return b
	case b == nil || b.Started.Before(&a.Started):
		return a
	case a.Started.Before(&b.Started) || b.Outcome != "":
		return b
	default:
		return a
	}
}

// Clone is a deep copy, so that a decision never changes what was read.
func (m *Memory) Clone() *Memory {
	if m == nil {
		return nil
	}
	out := *m
	out.Before = append([]Entry(nil), m.Before...)
	out.Table = append([]Entry(nil), m.Table...)
	out.Deploy = clone(m.Deploy)
	out.Last = clone(m.Last)
	out.Hold = clone(m.Hold)
	out.SupersededBy = clone(m.SupersededBy)
	out.Back = clone(m.Back)
	out.ClaimedAt = clone(m.ClaimedAt)
	out.TookFrom = append([]types.UID(nil), m.TookFrom...)
	out.Ended = clone(m.Ended)
	return &out
}

func clone[T any](in *T) *T {
	if in == nil {
		return nil
	}
	out := *in
	return &out
}

// ErrNewerMemory is a memory that a later release wrote: this one must not touch it.
var ErrNewerMemory = errors.New("the rollout's memory was written by a newer release of Sluice")

// DecodeMemory reads the annotation. An empty text is no memory, and no error.
func DecodeMemory(text string) (*Memory, error) {
	if text == "" {
		return nil, nil
	}
	memory := &Memory{}
	if err := json.Unmarshal([]byte(text), memory); err != nil {
		return nil, fmt.Errorf("the annotation %s is not a rollout's memory (%w): put it back, or remove it once the split is as you want it",
			v1alpha1.RolloutAnnotation, err)
	}
	switch {
	case memory.Version > MemoryVersion:
		return nil, fmt.Errorf("%w: version %d, and this one knows %d", ErrNewerMemory, memory.Version, MemoryVersion)
	case memory.Version < 1 || memory.Holder.UID == "":
		return nil, fmt.Errorf("the annotation %s is not a rollout's memory (no version or no holder): put it back, or remove it once the split is as you want it",
			v1alpha1.RolloutAnnotation)
	}
	return memory, nil
}

// Encode writes the annotation.
func (m *Memory) Encode() (string, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("cannot write the rollout's memory: %w", err)
	}
	return string(data), nil
}
