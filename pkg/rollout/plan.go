// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Request is the split that a step asks for.
type Request struct {
	Service   string
	Namespace string
	Shares    []Share
	Tags      []TagOf
}

// TagOf is a tag that a revision shall have.
type TagOf struct {
	Revision string
	Tag      string
}

// Candidate is the one revision beside stable that the request gives a share; empty if there are several or none.
func (r Request) Candidate(stable string) string {
	candidate := ""
	for _, share := range r.Shares {
		switch {
		case share.Revision == stable:
		case candidate != "" && candidate != share.Revision:
			return ""
		default:
			candidate = share.Revision
		}
	}
	if candidate == "" && len(r.Shares) > 0 && !slices.ContainsFunc(r.Shares, func(s Share) bool { return s.Revision != stable }) {
		return stable
	}
	return candidate
}

// Plan is the table that gives a request its shares. What is left goes to stable; a candidate's share is taken from
// stable's alone, so that everybody else keeps theirs; tags and targets that nobody mentions stay.
func Plan(memory *Memory, now []Entry, request Request) ([]Entry, error) {
	shares, err := completeShares(memory, now, request)
	if err != nil {
		return nil, err
	}
	table := now
	if memory.Stable != "" {
		table = Pin(slices.DeleteFunc(slices.Clone(now), func(e Entry) bool { return e == Entry{} }), memory.Stable)
	} else if memory.Candidate != "" {
		table = Pin(now, memory.Candidate)
	}
	if len(request.Shares) > 0 {
		table = SetShares(table, memory.Before, shares)
	}
	for i, tag := range request.Tags {
		if err := CheckTag(tag.Tag, request.Service, request.Namespace); err != nil {
			return nil, fmt.Errorf("tags[%d]: %w", i, err)
		}
		if table, err = PutTag(memory, table, tag); err != nil {
			return nil, fmt.Errorf("tags[%d]: %w", i, err)
		}
	}
	return table, CheckTable(table, request.Service, request.Namespace)
}

// completeShares adds what the request leaves open: stable's share, and a candidate's 0 where stable is spelt out.
func completeShares(memory *Memory, now []Entry, request Request) ([]Share, error) {
	mentioned := map[string]bool{}
	var sum int64
	for i, share := range request.Shares {
		if mentioned[share.Revision] {
			return nil, fmt.Errorf("traffic[%d]: revision %s has a share already", i, share.Revision)
		}
		mentioned[share.Revision] = true
		sum += share.Percent
	}
	kept := sumOf(Pin(now, memory.Stable), func(e Entry) bool {
		return !mentioned[e.Revision] && e.Revision != memory.Stable && (e.Revision != memory.Candidate || !mentioned[memory.Stable])
	})
	shares := slices.Clone(request.Shares)
	switch {
	case memory.Stable == "":
		if sum != 100 {
			return nil, fmt.Errorf("the percentages sum to %d, want 100: at a first delivery there is no stable revision to take the rest", sum)
		}
	case mentioned[memory.Stable]:
		if sum+kept != 100 {
			return nil, fmt.Errorf("the percentages sum to %d, want 100%s", sum+kept, others(kept))
		}
		if memory.Candidate != "" && !mentioned[memory.Candidate] {
			shares = append(shares, Share{Revision: memory.Candidate})
		}
	case sum+kept > 100:
		return nil, fmt.Errorf("the percentages sum to %d, want 100%s", sum+kept, others(kept))
	default:
		shares = append(shares, Share{Revision: memory.Stable, Percent: 100 - sum - kept})
	}
	return shares, nil
}

// others explains a sum that revisions nobody mentioned have a part in.
func others(kept int64) string {
	if kept == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d%% of them belong to revisions that the step does not mention, and stay)", kept)
}

// PutTag gives a revision a tag. A tag that is the rollout's own moves; somebody else's does not.
func PutTag(memory *Memory, table []Entry, wanted TagOf) ([]Entry, error) {
	out := slices.Clone(table)
	for i, entry := range out {
		switch {
		case entry.Tag != wanted.Tag:
		case entry.Revision == wanted.Revision:
			return out, nil
		case hasTag(memory.Before, wanted.Tag):
			return nil, fmt.Errorf("tag %q is revision %s's, and not this rollout's to move: take another tag, or remove that one first", wanted.Tag, entry.Revision)
		default:
			out[i].Tag = ""
		}
	}
	for i, entry := range out {
		if entry.Revision == wanted.Revision && entry.Tag == "" {
			out[i].Tag = wanted.Tag
			return out, nil
		}
	}
	return append(out, Entry{Revision: wanted.Revision, Tag: wanted.Tag}), nil
}

// ParsePercent reads "5%" or "5": whole, 0 to 100.
func ParsePercent(text string) (int64, error) {
	number, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "%")), 10, 64)
	if err != nil || number < 0 || number > 100 {
		return 0, errors.New(strconv.Quote(text) + " is not a whole percentage from 0 to 100")
	}
	return number, nil
}
