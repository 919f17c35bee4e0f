// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package onservice

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// hopeless are reasons of a revision's conditions that no waiting mends (serving, pkg/apis/serving/v1/
// revision_lifecycle.go, and the kubelet's reasons for a container that cannot start).
var hopeless = []string{
	servingv1.ReasonContainerMissing, servingv1.ReasonProgressDeadlineExceeded,
	"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CrashLoopBackOff",
}

// NeverReady tells whether a revision will never be ready: the reason and the container's last words, or two empty
// strings. A revision whose status is of another generation says nothing.
func NeverReady(revision *servingv1.Revision) (reason, message string) {
	if revision.Status.ObservedGeneration != revision.Generation {
		return "", ""
	}
	for _, kind := range []string{
		string(servingv1.RevisionConditionContainerHealthy), string(servingv1.RevisionConditionResourcesAvailable), string(servingv1.RevisionConditionReady),
	} {
		for _, condition := range revision.Status.Conditions {
			if string(condition.Type) != kind || condition.Status != corev1.ConditionFalse {
				continue
			}
			if slices.Contains(hopeless, condition.Reason) || strings.HasPrefix(condition.Reason, "ExitCode") {
				return condition.Reason, oneLine(condition.Message)
			}
		}
	}
	return "", ""
}

// oneLine makes a container's last words fit into a message.
func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
