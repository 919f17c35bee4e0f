// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package builder reads ConfigMap config-builders: the builders that an operator offers to BuildImage. A builder is a
// Tekton Task in the controller's own namespace; BuildImage embeds it in a TaskRun in the namespace of the run, so that
// tenants install nothing and change nothing in it.
package builder

import (
	"context"
	"fmt"
	"slices"
	"strings"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	tektonclient "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

const (
	// ConfigName is the ConfigMap's name.
	ConfigName = "config-builders"
	// defaultKey names the builder that a run without a param builder gets.
	defaultKey = "default"
	// exampleKey documents the ConfigMap, as in Knative's and Tekton's.
	exampleKey = "_example"
)

// Builder is one entry of the ConfigMap.
type Builder struct {
	// Task is the name of the Task that builds. It takes the params url, revision, IMAGE, CONTEXT, DOCKERFILE and
	// BUILD_ARGS, as far as it declares them, and gives the results IMAGE_URL, IMAGE_DIGEST and commit.
	Task string `json:"task"`
	// Resolve is the name of the Task that finds the commit of a branch or tag: params url and revision, result commit.
	Resolve string `json:"resolve"`
	// Params are more params for both Tasks, the operator's: an address, a flag.
	Params map[string]string `json:"params,omitempty"`
}

// Parse reads the ConfigMap's data: the builders by name, and the name of the default one.
func Parse(data map[string]string) (map[string]Builder, string, error) {
	builders := map[string]Builder{}
	for name, text := range data {
		if name == defaultKey || name == exampleKey {
			continue
		}
		var builder Builder
		if err := yaml.UnmarshalStrict([]byte(text), &builder); err != nil {
			return nil, "", fmt.Errorf("ConfigMap %s, %s: %w", ConfigName, name, err)
		}
		if builder.Task == "" {
			return nil, "", fmt.Errorf("ConfigMap %s, %s: task is missing: the name of a Task in the controller's namespace", ConfigName, name)
		}
		builders[name] = builder
	}
	standard := strings.TrimSpace(data[defaultKey])
	if _, ok := builders[standard]; standard != "" && !ok {
		return nil, "", fmt.Errorf("ConfigMap %s, default: there is no builder %q, only %s", ConfigName, standard, names(builders))
	}
	return builders, standard, nil
}

func names(builders map[string]Builder) string {
	var all []string
	for name := range builders {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// Source reads builders from the controller's namespace, live: a build is rare, and an operator's change counts at once.
type Source struct {
	Kube      kubernetes.Interface
	Tekton    tektonclient.Interface
	Namespace string
}

// UnknownError is a builder that the operator does not offer.
type UnknownError struct{ message string }

// Error says which there are.
func (e *UnknownError) Error() string { return e.message }

// Find returns the builder of that name, or the operator's default if the name is empty.
func (s Source) Find(ctx context.Context, name string) (Builder, error) {
	config, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(ctx, ConfigName, metav1.GetOptions{})
	if err != nil {
		return Builder{}, fmt.Errorf("cannot read ConfigMap %s: %w", ConfigName, err)
	}
	builders, standard, err := Parse(config.Data)
	if err != nil {
		return Builder{}, err
	}
	if name == "" {
		name = standard
	}
	builder, ok := builders[name]
	switch {
	case ok:
		return builder, nil
	case name == "":
		return Builder{}, &UnknownError{"builder: the operator has set no default in ConfigMap " + ConfigName + ": name one of " + names(builders)}
	default:
		return Builder{}, &UnknownError{fmt.Sprintf("builder: there is no builder %q, only %s", name, names(builders))}
	}
}

// Task reads a Task of a builder.
func (s Source) Task(ctx context.Context, name string) (*pipelinev1.TaskSpec, error) {
	task, err := s.Tekton.TektonV1().Tasks(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read the builder's Task %s in namespace %s: %w", name, s.Namespace, err)
	}
	return &task.Spec, nil
}
