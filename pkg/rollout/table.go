// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"

	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// Entry is one target of a traffic table: a revision by name, or the latest ready one.
type Entry struct {
	// Revision is empty for an entry that follows the latest ready revision.
	Revision string `json:"revision,omitempty"`
	Tag      string `json:"tag,omitempty"`
	// Percent is whole, 0 to 100.
	Percent int64 `json:"percent"`
}

// Latest reports whether the entry follows the latest ready revision.
func (e Entry) Latest() bool { return e.Revision == "" }

// FromTraffic reads Knative's table. Nothing is lost: a Service's table has no other fields that may be written
// (configurationName is refused there, url is status). An empty table means all to the latest, as Knative defaults it.
func FromTraffic(traffic []servingv1.TrafficTarget) []Entry {
	if len(traffic) == 0 {
		return []Entry{{Percent: 100}}
	}
	table := make([]Entry, 0, len(traffic))
	for _, target := range traffic {
		entry := Entry{Revision: target.RevisionName, Tag: target.Tag}
		if target.Percent != nil {
			entry.Percent = *target.Percent
		}
		table = append(table, entry)
	}
	return table
}

// ToTraffic writes Knative's table, with every field that Knative would default set, so that it reads back equal.
func ToTraffic(table []Entry) []servingv1.TrafficTarget {
	traffic := make([]servingv1.TrafficTarget, 0, len(table))
	for _, entry := range table {
		latest, percent := entry.Latest(), entry.Percent
		traffic = append(traffic, servingv1.TrafficTarget{
			RevisionName: entry.Revision, Tag: entry.Tag, LatestRevision: &latest, Percent: &percent,
		})
	}
	return traffic
}

// ShareOf is the percentage that a revision has in all its entries together.
func ShareOf(table []Entry, revision string) int64 {
	return sumOf(table, func(e Entry) bool { return e.Revision == revision })
}

// Has reports whether any entry names the revision.
func Has(table []Entry, revision string) bool {
	return slices.ContainsFunc(table, func(e Entry) bool { return e.Revision == revision })
}

func sumOf(table []Entry, counts func(Entry) bool) int64 {
	var sum int64
	for _, entry := range table {
		if counts(entry) {
			sum += entry.Percent
		}
	}
	return sum
}

// Follows reports whether a share of the table goes to whatever revision is the latest.
func Follows(table []Entry) bool {
	return slices.ContainsFunc(table, func(e Entry) bool { return e.Latest() && e.Percent > 0 })
}

// Split writes the shares of a table for people and for the results: "a=25,b=75", each revision once, those with
// nothing left out, in the order of their names.
func Split(table []Entry) string {
	shares := map[string]int64{}
	for _, entry := range table {
		name := entry.Revision
		if entry.Latest() {
			name = "latest"
		}
		shares[name] += entry.Percent
	}
	var parts []string
	for name, percent := range shares {
		if percent > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", name, percent))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// Pin makes every entry that follows the latest revision name this one instead.
func Pin(table []Entry, revision string) []Entry {
	out := slices.Clone(table)
	for i := range out {
		if out[i].Latest() {
			out[i].Revision = revision
		}
	}
	return out
}

// Prepare is the table while a new revision starts: everything that followed the latest revision is pinned to stable,
// and an untagged entry at 0% follows the latest one. A revision that no Route names is "reserve" to Knative, which
// then ignores its min-scale (serving, pkg/reconciler/labeler and autoscaling/kpa): this entry keeps it active.
func Prepare(table []Entry, stable string) []Entry {
	out := Pin(table, stable)
	return append(out, Entry{})
}

// Name makes the entry that kept the starting revision active name it, with the tag if there is one. Any entry of the
// revision that is there already is used instead of a new one.
func Name(table []Entry, revision, tag string) []Entry {
	out := slices.Clone(table)
	out = slices.DeleteFunc(out, func(e Entry) bool { return e.Latest() && e.Percent == 0 && e.Tag == "" })
	if tag == "" {
		if !Has(out, revision) {
			out = append(out, Entry{Revision: revision})
		}
		return out
	}
	for i := range out {
		if out[i].Revision == revision && (out[i].Tag == "" || out[i].Tag == tag) {
			out[i].Tag = tag
			return out
		}
	}
	return append(out, Entry{Revision: revision, Tag: tag})
}

// Share is a revision and the percentage it shall have.
type Share struct {
	Revision string
	Percent  int64
}

// SetShares gives each revision named its share, in the entries it has or in a new one without a tag. Where a revision
// has several entries they are filled in order, each up to what it had in before, the rest into the first.
func SetShares(table, before []Entry, shares []Share) []Entry {
	out := slices.Clone(table)
	for _, share := range shares {
		var at []int
		for i := range out {
			if out[i].Revision == share.Revision {
				at = append(at, i)
			}
		}
		if len(at) == 0 {
			out = append(out, Entry{Revision: share.Revision, Percent: share.Percent})
			continue
		}
		left := share.Percent
		for _, i := range at {
			had := share.Percent
			if len(at) > 1 {
				had = percentIn(before, out[i])
			}
			out[i].Percent = min(left, had)
			left -= out[i].Percent
		}
		out[at[0]].Percent += left
	}
	return out
}

// percentIn is what the very entry, by revision and tag, had in another table.
func percentIn(table []Entry, entry Entry) int64 {
	for _, other := range table {
		if other.Revision == entry.Revision && other.Tag == entry.Tag {
			return other.Percent
		}
	}
	return 0
}

// Back is the table that ends a rollout by going back, given the table as it stands now: what was found, pinned to
// stable where it followed the latest revision, without a single entry of the candidate that the rollout made: one
// target that is not Ready stops Knative from programming the whole Route (serving, route.configureTraffic). An entry
// that the candidate had before the rollout comes back only if the candidate is ready; if not, its share is stable's.
// Entries at 0% that somebody else added meanwhile stay, and those that somebody else removed stay removed.
func Back(memory *Memory, now []Entry, candidateReady bool) []Entry {
	candidate := memory.Candidate
	if candidate == memory.Stable {
		candidate = ""
	}
	out, left := []Entry{}, int64(0)
	for _, entry := range Pin(memory.Before, memory.Stable) {
		removed := entry.Percent == 0 && containsEntry(memory.Table, entry) && !containsEntry(now, entry)
		switch {
		case candidate != "" && entry.Revision == candidate && !candidateReady:
			left += entry.Percent
		case !removed:
			out = append(out, entry)
		}
	}
	if i := slices.IndexFunc(out, func(e Entry) bool { return e.Revision == memory.Stable }); i >= 0 {
		out[i].Percent += left
	} else if left > 0 {
		out = append(out, Entry{Revision: memory.Stable, Percent: left})
	}
	for _, entry := range now {
		added := entry.Percent == 0 && !entry.Latest() && entry.Revision != candidate &&
			!containsEntry(memory.Table, entry) && !containsEntry(out, entry) && !hasTag(out, entry.Tag)
		if added {
			out = append(out, entry)
		}
	}
	return out
}

// Promote is the table that ends a rollout with the candidate in place: as it stands, without the tags and the empty
// entries that the rollout added (unless keepTags), and following the latest revision again if it did before and the
// candidate is the latest.
func Promote(memory *Memory, now []Entry, latestReady string) []Entry {
	follow := memory.Follow && latestReady == memory.Candidate
	out := []Entry{}
	for _, entry := range now {
		ours := entry.Revision == memory.Candidate || entry.Revision == memory.Stable || entry.Latest()
		if ours {
			if !hadTag(memory.Before, entry) {
				entry.Tag = ""
			}
			if entry.Percent == 0 && entry.Tag == "" {
				continue
			}
			if follow && entry.Revision == memory.Candidate && entry.Tag == "" {
				entry.Revision = ""
			}
		}
		out = append(out, entry)
	}
	return merge(out)
}

// merge makes one entry of those that differ in their percentage alone.
func merge(table []Entry) []Entry {
	var out []Entry
	for _, entry := range table {
		i := slices.IndexFunc(out, func(e Entry) bool { return e.Revision == entry.Revision && e.Tag == entry.Tag })
		if i < 0 || entry.Tag != "" {
			out = append(out, entry)
			continue
		}
		out[i].Percent += entry.Percent
	}
	return out
}

// hadTag reports whether the entry's tag was there before the rollout.
func hadTag(before []Entry, entry Entry) bool { return entry.Tag != "" && hasTag(before, entry.Tag) }

func hasTag(table []Entry, tag string) bool {
	return tag != "" && slices.ContainsFunc(table, func(e Entry) bool { return e.Tag == tag })
}

// containsEntry looks for the entry by what names it: revision and tag.
func containsEntry(table []Entry, entry Entry) bool {
	return slices.ContainsFunc(table, func(e Entry) bool { return e.Revision == entry.Revision && e.Tag == entry.Tag })
}

// Foreign compares the table in the Service with what the rollout last wrote.
type Foreign int

const (
	// Untouched: nobody else wrote.
	Untouched Foreign = iota
	// Around: somebody added or removed entries at 0% that are not the rollout's. They are kept, and the rollout goes on.
	Around
	// Against: somebody changed a share, or an entry of the rollout's. Their table stays, and the rollout does not go on.
	Against
)

// Compare tells what somebody else did to the table since the rollout wrote it.
func Compare(memory *Memory, now []Entry) Foreign {
	if slices.Equal(memory.Table, now) {
		return Untouched
	}
	mine := func(table []Entry) []Entry {
		out := []Entry{}
		for _, entry := range table {
			if entry.Percent > 0 || entry.Latest() || entry.Revision == memory.Candidate || entry.Revision == memory.Stable {
				out = append(out, entry)
			}
		}
		slices.SortFunc(out, func(a, b Entry) int {
			return strings.Compare(fmt.Sprintf("%s/%s/%d", a.Revision, a.Tag, a.Percent), fmt.Sprintf("%s/%s/%d", b.Revision, b.Tag, b.Percent))
		})
		return out
	}
	if slices.Equal(mine(memory.Table), mine(now)) {
		return Around
	}
	return Against
}
