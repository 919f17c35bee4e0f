// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package target is what a rollout acts on: it finds it, reads it live, tells whether the ingress has what was written,
// and writes it, once and with a precondition. A Knative Service (ksvc) is one kind of target; the Configuration and
// Route owned by one of our Services are to be another, and nothing outside this package needs to know which it is.
package target

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingclient "knative.dev/serving/pkg/client/clientset/versioned/typed/serving/v1"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
)

// Pin names the very target that a run began with.
type Pin struct {
	Kind string    `json:"kind"`
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// KsvcKind is the kind of a Knative Service, in a Pin.
const KsvcKind = "services.serving.knative.dev"

// Target is a target as it was just read.
type Target struct {
	Pin
	Namespace string
	// Deleting says that the object, or its namespace, is going away.
	Deleting bool
	// Memory is the rollout's memory, nil if there is none.
	Memory *rollout.Memory
	// MemoryError is set when the annotation cannot be read: nothing may be written then.
	MemoryError error
	// Table is the split that is asked for.
	Table []rollout.Entry
	// Template is the revision template that is asked for.
	Template servingv1.RevisionTemplateSpec
	// RolloutDuration is the annotation serving.knative.dev/rollout-duration.
	RolloutDuration string
	// Route and Configuration are nil while there are none.
	Route         *servingv1.Route
	Configuration *servingv1.Configuration
	// LastEditor is the field manager that wrote the spec last, as far as the object tells.
	LastEditor string

	service *servingv1.Service
}

// ErrNotFound says that there is no target of that name.
var ErrNotFound = errors.New("not found")

// Client finds, reads and writes targets.
type Client struct {
	Serving servingclient.ServingV1Interface
}

// Find reads the target of that name, live. The error is ErrNotFound if there is none.
func (c Client) Find(ctx context.Context, namespace, name string) (*Target, error) {
	service, err := c.Serving.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Knative Service %s in namespace %s: %w", name, namespace, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the Knative Service %s: %w", name, err)
	}
	target := fromService(service)
	if target.Route, err = absent(c.Serving.Routes(namespace).Get(ctx, name, metav1.GetOptions{})); err != nil {
		return nil, fmt.Errorf("cannot read the Route %s: %w", name, err)
	}
	if target.Configuration, err = absent(c.Serving.Configurations(namespace).Get(ctx, name, metav1.GetOptions{})); err != nil {
		return nil, fmt.Errorf("cannot read the Configuration %s: %w", name, err)
	}
	return target, nil
}

// absent makes a missing object nil.
func absent[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

func fromService(service *servingv1.Service) *Target {
	target := &Target{
		Pin:             Pin{Kind: KsvcKind, Name: service.Name, UID: service.UID},
		Namespace:       service.Namespace,
		Deleting:        service.DeletionTimestamp != nil,
		Table:           rollout.FromTraffic(service.Spec.Traffic),
		Template:        *service.Spec.Template.DeepCopy(),
		RolloutDuration: service.Annotations[serving.RolloutDurationKey],
		LastEditor:      lastEditor(service.ManagedFields),
		service:         service,
	}
	target.Memory, target.MemoryError = rollout.DecodeMemory(service.Annotations[v1alpha1.RolloutAnnotation])
	return target
}

// lastEditor is the manager of the newest entry that is about the spec.
func lastEditor(fields []metav1.ManagedFieldsEntry) string {
	var newest metav1.ManagedFieldsEntry
	for _, field := range fields {
		if field.Subresource != "" || field.Time == nil || field.FieldsV1 == nil ||
			!strings.Contains(string(field.FieldsV1.Raw), `"f:spec"`) {
			continue
		}
		if newest.Time == nil || newest.Time.Before(field.Time) {
			newest = field
		}
	}
	return newest.Manager
}

// Describe names the target for people.
func (t *Target) Describe() string { return "Service " + t.Name }

// LatestReady is the newest revision that is ready, empty if there is none or the Configuration's status is old.
func (t *Target) LatestReady() string {
	if t.Configuration == nil {
		return ""
	}
	return t.Configuration.Status.LatestReadyRevisionName
}

// LatestCreated is the revision made from the template as it is now; empty until Knative has made it.
func (t *Target) LatestCreated() string {
	configuration := t.Configuration
	if configuration == nil || configuration.Status.ObservedGeneration != configuration.Generation ||
		!sameTemplate(configuration.Spec.Template, t.Template) {
		return ""
	}
	return configuration.Status.LatestCreatedRevisionName
}

// Served is the table as the ingress has it, with revisions named; nil before there is one.
func (t *Target) Served() []rollout.Entry {
	if t.Route == nil || len(t.Route.Status.Traffic) == 0 {
		return nil
	}
	return rollout.FromTraffic(t.Route.Status.Traffic)
}

// URL is the Service's own address; tag's address if a tag is given, and empty until the Route maps the tag to the
// revision: a tag on an entry that follows the latest revision points at the old one until the new one is ready.
func (t *Target) URL(tag, revision string) string {
	if t.Route == nil {
		return ""
	}
	if tag == "" {
		if t.Route.Status.URL == nil {
			return ""
		}
		return t.Route.Status.URL.String()
	}
	for _, served := range t.Route.Status.Traffic {
		if served.Tag == tag && served.RevisionName == revision && served.URL != nil {
			return served.URL.String()
		}
	}
	return ""
}

// Address is where pods in the cluster reach the Service, or the tag (Knative gives each tag a Kubernetes Service of
// its own: serving, pkg/reconciler/route/resources/names).
func (t *Target) Address(tag string) string {
	if t.Route == nil || t.Route.Status.Address == nil || t.Route.Status.Address.URL == nil {
		return ""
	}
	address := t.Route.Status.Address.URL.DeepCopy()
	if tag != "" {
		address.Host = tag + "-" + address.Host
	}
	return address.String()
}

// Revision reads a revision, live, and reports whether it is there and this target's: owned by its Configuration.
func (c Client) Revision(ctx context.Context, t *Target, name string) (*servingv1.Revision, bool, error) {
	revision, err := c.Serving.Revisions(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot read the Revision %s: %w", name, err)
	}
	owned := t.Configuration != nil && metav1.IsControlledBy(revision, t.Configuration)
	return revision, owned, nil
}

// RevisionReader reads the revisions of a target.
type RevisionReader interface {
	Revision(ctx context.Context, t *Target, name string) (*servingv1.Revision, bool, error)
}
