// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/sluice-dev/sluice/pkg/rollout"
)

// Settled tells whether the Route and the ingress have the table that is asked for, and if not, what is missing, as a
// person would say it.
//
// Nothing stale is believed. The Route's own spec must be what is asked for (the Service's controller copies it there
// later), its status must be of that spec (observedGeneration), name the very revisions at the very shares, and both
// AllTrafficAssigned and IngressReady must be true: observedGeneration is set before the rest of the status is
// (knative/serving#4149).
func (t *Target) Settled() (bool, string) {
	route := t.Route
	switch {
	case route == nil:
		return false, "there is no Route yet"
	case !slices.Equal(t.routeTable(route.Spec.Traffic), t.Table):
		return false, "Knative has not copied the split to the Route yet"
	case route.Status.ObservedGeneration != route.Generation:
		return false, "the Route has not taken up the split yet"
	}
	for _, condition := range []struct{ kind, what string }{
		{string(servingv1.RouteConditionAllTrafficAssigned), "the Route cannot assign the traffic"},
		{string(servingv1.RouteConditionIngressReady), "the ingress does not have the split yet"},
	} {
		for _, found := range route.Status.Conditions {
			if string(found.Type) != condition.kind {
				continue
			}
			if !found.IsTrue() {
				return false, reasonAndMessage(condition.what, found.Reason, found.Message)
			}
		}
	}
	if !route.IsReady() && route.Status.GetCondition(servingv1.RouteConditionIngressReady) == nil {
		return false, "the Route has no status yet"
	}
	if !equality.Semantic.DeepEqual(normalise(rollout.Pin(t.Table, t.LatestReady())), normalise(t.Served())) {
		return false, "the Route has not assigned the traffic yet"
	}
	return true, ""
}

// routeTable reads a Route's table: there an entry that follows the latest revision names the Configuration.
func (t *Target) routeTable(traffic []servingv1.TrafficTarget) []rollout.Entry {
	return rollout.FromTraffic(traffic)
}

// normalise orders a table and leaves out what serves nothing and has no name: Knative drops or keeps such entries as
// it likes.
func normalise(table []rollout.Entry) []rollout.Entry {
	out := []rollout.Entry{}
	for _, entry := range table {
		i := slices.IndexFunc(out, func(e rollout.Entry) bool { return e.Revision == entry.Revision && e.Tag == entry.Tag })
		if i >= 0 {
			out[i].Percent += entry.Percent
			continue
		}
		out = append(out, entry)
	}
	out = slices.DeleteFunc(out, func(e rollout.Entry) bool { return e.Percent == 0 && e.Tag == "" })
	slices.SortFunc(out, func(a, b rollout.Entry) int {
		return compareStrings(a.Revision+"/"+a.Tag, b.Revision+"/"+b.Tag)
	})
	return out
}

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

func reasonAndMessage(what, reason, message string) string {
	switch {
	case reason == "" && message == "":
		return what
	case message == "":
		return fmt.Sprintf("%s (%s)", what, reason)
	default:
		return fmt.Sprintf("%s (%s: %s)", what, reason, message)
	}
}

// sameTemplate compares two templates as Knative stores them.
func sameTemplate(a, b servingv1.RevisionTemplateSpec) bool {
	return equality.Semantic.DeepEqual(a, b)
}
