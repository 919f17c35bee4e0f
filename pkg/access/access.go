// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package access keeps the controller from being anybody's deputy: before it writes on a run's behalf it asks the API
// server whether the run's own service account may.
package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

const (
	// keepAnswers is how long an answer is believed: long enough for the passes of one step, short enough that taking a
	// right away means something.
	keepAnswers = 10 * time.Second
	// maxAnswers bounds the cache; it is emptied when full, since an answer is cheap.
	maxAnswers = 10_000
)

// Subject is whose rights count: a service account of a namespace.
type Subject struct {
	Namespace      string
	ServiceAccount string
}

// Action is a verb on one object, in the subject's own namespace.
type Action struct {
	Verb     string
	Group    string
	Resource string
	// Subresource may be empty.
	Subresource string
	// Name is the object's; empty for create and list.
	Name string
}

// Checker answers whether a subject may do something.
type Checker struct {
	reviews authorizationclient.SubjectAccessReviewsGetter
	clock   clock.PassiveClock

	mutex   sync.Mutex
	answers map[question]answer
}

type question struct {
	Subject
	Action
}

type answer struct {
	allowed bool
	at      time.Time
}

// NewChecker makes a Checker.
func NewChecker(reviews authorizationclient.SubjectAccessReviewsGetter, clock clock.PassiveClock) *Checker {
	return &Checker{reviews: reviews, clock: clock, answers: map[question]answer{}}
}

// Allowed returns nil if the subject may, an error of reason NotAllowed that names the right and how to give it if
// not, and any other error if the API server could not say.
func (c *Checker) Allowed(ctx context.Context, subject Subject, action Action) error {
	if subject.ServiceAccount == "" {
		subject.ServiceAccount = "default"
	}
	allowed, err := c.ask(ctx, question{subject, action})
	if err != nil {
		return fmt.Errorf("cannot ask what service account %s may do: %w", subject.ServiceAccount, err)
	}
	if allowed {
		return nil
	}
	return step.Refuse(v1alpha1.ReasonNotAllowed, Explain(subject, action))
}

func (c *Checker) ask(ctx context.Context, q question) (bool, error) {
	now := c.clock.Now()
	c.mutex.Lock()
	known, found := c.answers[q]
	c.mutex.Unlock()
	if found && now.Sub(known.at) < keepAnswers {
		return known.allowed, nil
	}
	review, err := c.reviews.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + q.Namespace + ":" + q.ServiceAccount,
			Groups: []string{
				"system:serviceaccounts", "system:serviceaccounts:" + q.Namespace, "system:authenticated",
			},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: q.Namespace, Verb: q.Verb, Group: q.Group, Resource: q.Resource,
				Subresource: q.Subresource, Name: q.Name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.answers) >= maxAnswers {
		clear(c.answers)
	}
	c.answers[q] = answer{allowed: review.Status.Allowed && !review.Status.Denied, at: now}
	return c.answers[q].allowed, nil
}

// Explain says who may not do what, and the RoleBinding that would help.
func Explain(subject Subject, action Action) string {
	resource := action.Resource
	if action.Group != "" {
		resource += "." + action.Group
	}
	if action.Subresource != "" {
		resource += "/" + action.Subresource
	}
	if action.Name != "" {
		resource += " " + action.Name
	}
	return fmt.Sprintf("service account %s may not %s %s in namespace %s: bind it to the ClusterRole sluice-pipeline, "+
		"for example with: kubectl create rolebinding %s-sluice -n %s --clusterrole=sluice-pipeline --serviceaccount=%s:%s",
		subject.ServiceAccount, action.Verb, resource, subject.Namespace,
		subject.ServiceAccount, subject.Namespace, subject.Namespace, subject.ServiceAccount)
}
