// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
)

// OnBusy is what a run does when another rollout has the target.
type OnBusy string

const (
	// Wait for the other's end, oldest first.
	Wait OnBusy = "wait"
	// Supersede ends the running rollout, and those in line, after the traffic has gone back.
	Supersede OnBusy = "supersede"
	// Fail at once.
	Fail OnBusy = "fail"
)

// Turn is what a run may do on a target now.
type Turn int

const (
	// Begin: the target is free.
	Begin Turn = iota
	// Mine: a rollout of this holder is under way.
	Mine
	// HeldTurn: a rollout of this holder is under way, and a gate holds it where it is.
	HeldTurn
	// Queue: somebody else has the target, or is before us in line.
	Queue
	// Claim: write that this holder supersedes the rollout under way.
	Claim
	// Busy: somebody else has the target, and the run was not to wait.
	Busy
	// Lost: this holder's rollout is no longer known to the target.
	Lost
	// Overtaken: a newer holder superseded this one.
	Overtaken
	// GoingBack: this holder's rollout is on its way back.
	GoingBack
)

// InLine is somebody who waits for the target.
type InLine struct {
	Holder Holder
	Since  time.Time
}

// TurnInput is all that decides whose turn it is.
type TurnInput struct {
	Holder Holder
	OnBusy OnBusy
	// Memory is the target's.
	Memory *Memory
	// Copy is what this holder's runs last saw of their own rollout, nil if it began none.
	Copy *Memory
	// Since is when this run got in line, zero if it has not.
	Since time.Time
	// Others wait for the same target.
	Others []InLine
}

// Decide tells whose turn it is, and why it is not ours, as a person would say it.
func Decide(in TurnInput) (Turn, string) {
	memory := in.Memory
	ours := memory.HeldBy(in.Holder)
	switch {
	case memory == nil && in.Copy.UnderWay():
		return Lost, "the rollout's memory is gone from the Service: somebody replaced or removed its annotation"
	case overtaken(in):
		return Overtaken, fmt.Sprintf("superseded by %s", by(memory))
	case in.Copy.UnderWay() && memory != nil && !ours:
		return Lost, fmt.Sprintf("the Service's memory is now of another rollout, by %s", memory.Holder)
	case ours && memory.UnderWay() && memory.Back != nil:
		return GoingBack, memory.Back.Cause
	case ours && memory.UnderWay() && memory.Hold != nil:
		return HeldTurn, memory.Hold.Cause
	case ours && memory.UnderWay():
		return Mine, ""
	}
	busy := ""
	if memory.UnderWay() {
		busy = fmt.Sprintf("%s has the Service since %s", memory.Holder, memory.Started.UTC().Format(time.RFC3339))
		if by := memory.SupersededBy; by != nil && by.UID == in.Holder.UID {
			return Queue, busy + ", and is being superseded: its traffic goes back first"
		}
		if in.OnBusy == Supersede {
			return Claim, busy
		}
	} else if first := firstInLine(in.Others); first != nil && in.OnBusy != Supersede &&
		(in.Since.IsZero() || before(*first, InLine{in.Holder, in.Since})) {
		busy = fmt.Sprintf("%s is before in line, since %s", first.Holder, first.Since.UTC().Format(time.RFC3339))
	}
	switch {
	case busy == "":
		return Begin, ""
	case in.OnBusy == Fail:
		return Busy, busy
	default:
		return Queue, busy
	}
}

// overtaken reports whether a newer holder took this one's turn: its rollout, or its place in line.
func overtaken(in TurnInput) bool {
	memory := in.Memory
	switch {
	case memory == nil:
		return false
	case memory.HeldBy(in.Holder):
		return memory.SupersededBy != nil
	case memory.Superseded(in.Holder):
		return true
	case in.Since.IsZero():
		return false
	case memory.SupersededBy != nil && memory.SupersededBy.UID != in.Holder.UID:
		return in.Since.Before(memory.ClaimedAt.Time)
	default:
		return memory.ClaimedAt != nil && memory.SupersededBy == nil && in.Since.Before(memory.ClaimedAt.Time)
	}
}

// by names who superseded.
func by(memory *Memory) string {
	if memory.SupersededBy != nil {
		return memory.SupersededBy.String()
	}
	return memory.Holder.String()
}

// Superseded reports whether the holder is one of those that this rollout took the target from.
func (m *Memory) Superseded(holder Holder) bool {
	return slices.Contains(m.TookFrom, holder.UID)
}

func firstInLine(line []InLine) *InLine {
	if len(line) == 0 {
		return nil
	}
	first := slices.MinFunc(line, func(a, b InLine) int {
		switch {
		case before(a, b):
			return -1
		case before(b, a):
			return 1
		default:
			return 0
		}
	})
	return &first
}

func before(a, b InLine) bool {
	if !a.Since.Equal(b.Since) {
		return a.Since.Before(b.Since)
	}
	return a.Holder.UID < b.Holder.UID
}

// Found is what a rollout finds when it begins.
type Found struct {
	Table []Entry
	// Served is the table with revisions named, nil if nothing is served yet.
	Served []Entry
	// LatestReady is the newest ready revision, empty if none is.
	LatestReady string
	// Last is the memory of the rollout before, nil if there was none.
	Last *Memory
}

// Start makes the memory of a new rollout. Stable is found here, once: what a held rollout left word of, else the
// revision with the largest share of what is served. Two with the same largest share is a question for a person.
func Start(found Found, holder Holder, serviceAccount string, superseding bool, now time.Time) (*Memory, error) {
	memory := &Memory{
		Version: MemoryVersion, Holder: holder, ServiceAccount: serviceAccount, Started: metav1.NewTime(now.Truncate(time.Second)),
		Before: slices.Clone(found.Table), Table: slices.Clone(found.Table), Follow: Follows(found.Table),
	}
	last := found.Last
	switch {
	case last == nil:
	case last.Outcome == v1alpha1.Held && Compare(last, found.Table) != Against:
		memory.Stable, memory.Before, memory.Follow, memory.Previous = last.Stable, slices.Clone(last.Before), last.Follow, last.Previous
	case last.Outcome == v1alpha1.RolledBack && Compare(last, found.Table) != Against:
		memory.Follow, memory.Stable, memory.Previous = memory.Follow || last.Follow, last.Stable, last.Previous
	}
	if memory.Stable == "" {
		stable, err := stableOf(found)
		if err != nil {
			return nil, err
		}
		memory.Stable = stable
	}
	if last != nil && last.Outcome == v1alpha1.Promoted && last.Candidate == memory.Stable {
		memory.Previous = last.Stable
		if last.Stable == last.Candidate {
			memory.Previous = last.Previous
		}
	}
	if superseding || (last != nil && last.SupersededBy != nil && last.SupersededBy.UID == holder.UID) {
		at := metav1.NewMicroTime(now)
		memory.ClaimedAt = &at
	}
	if last != nil && last.SupersededBy != nil {
		memory.TookFrom = append(slices.Clone(last.TookFrom), last.Holder.UID)
		if len(memory.TookFrom) > maxTookFrom {
			memory.TookFrom = memory.TookFrom[len(memory.TookFrom)-maxTookFrom:]
		}
	}
	return memory, nil
}

// stableOf is the revision with the largest share of what is served; none at a first delivery.
func stableOf(found Found) (string, error) {
	if found.LatestReady == "" && len(found.Served) == 0 {
		return "", nil
	}
	served := found.Served
	if len(served) == 0 {
		served = Pin(found.Table, found.LatestReady)
	}
	best, share, tied := "", int64(-1), []string{}
	for _, entry := range served {
		switch has := ShareOf(served, entry.Revision); {
		case entry.Revision == best:
		case has > share:
			best, share, tied = entry.Revision, has, []string{entry.Revision}
		case has == share:
			tied = append(tied, entry.Revision)
		}
	}
	if slices.Sort(tied); len(slices.Compact(tied)) > 1 {
		return "", fmt.Errorf("the split is %s, so which revision is stable cannot be told: give one of %s the larger share first",
			Split(served), strings.Join(slices.Compact(tied), " and "))
	}
	return best, nil
}
