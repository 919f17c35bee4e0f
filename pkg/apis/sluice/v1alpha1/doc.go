// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of Sluice: the kinds that a Tekton pipeline uses as custom tasks, with the params they
// take and the results they give, the reasons a run can end with, and the names of labels and annotations.
//
// There is no CustomResourceDefinition behind the kinds: a pipeline names one in taskRef, and everything else is params.
package v1alpha1

const (
	// Group is the API group of every kind.
	Group = "sluice.dev"
	// Version is the version of the API.
	Version = "v1alpha1"
	// APIVersion is what a taskRef carries.
	APIVersion = Group + "/" + Version
)

const (
	// ServiceLabel on a PipelineRun names the Service that its steps act on, where a step has no param service. It
	// grants nothing: what the run's service account may do decides.
	ServiceLabel = Group + "/service"
	// RolloutAnnotation holds a rollout's memory, on the object whose template the rollout changes.
	RolloutAnnotation = Group + "/rollout"
	// AttemptAnnotation on a revision template makes a new revision of a template whose revision failed before.
	AttemptAnnotation = Group + "/attempt"
	// CommitAnnotation on a revision template is the commit that its image was built from.
	CommitAnnotation = Group + "/commit"
	// CustomRunLabel on an object names the CustomRun that made it.
	CustomRunLabel = Group + "/customrun"
	// SpecAnnotation on a TaskRun that BuildImage made is a hash of the spec it was made with: a TaskRun with another
	// spec is not believed.
	SpecAnnotation = Group + "/spec"
)
