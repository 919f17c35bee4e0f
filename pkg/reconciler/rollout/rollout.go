// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout gives every rollout its end. When the run that holds one is over, whatever way, and has left it without
// an outcome, the controller ends it, acting for the service account that began it.
package rollout

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	ksvcreconciler "knative.dev/serving/pkg/client/injection/reconciler/serving/v1/service"

	"github.com/sluice-dev/sluice/pkg/access"
	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/onservice"
	"github.com/sluice-dev/sluice/pkg/steps/step"
	"github.com/sluice-dev/sluice/pkg/target"
)

const (
	// recheck is when to look again while the ingress takes up the split.
	recheck = 2 * time.Second
	// recheckHolder is when to look at the holder again, should a watch event be lost.
	recheckHolder = 30 * time.Second
)

// Holders tells how far a holder is.
type Holders interface {
	State(ctx context.Context, namespace string, holder rollout.Holder) (rollout.HolderState, error)
}

// Unfinished reports whether a holder has a run of ours that is not finished.
type Unfinished interface {
	Unfinished(namespace string, holder types.UID) (bool, error)
}

// Reconciler ends the rollout on one Service.
type Reconciler struct {
	onservice.Deps
	Clock      clock.PassiveClock
	Holders    Holders
	Unfinished Unfinished
}

var _ ksvcreconciler.Interface = (*Reconciler)(nil)

// ReconcileKind does one pass: at most one write.
func (r *Reconciler) ReconcileKind(ctx context.Context, service *servingv1.Service) reconciler.Event {
	seen, err := rollout.DecodeMemory(service.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		logging.FromContext(ctx).Warnw("Left alone", "error", err)
		return nil
	}
	if !seen.UnderWay() || service.DeletionTimestamp != nil {
		return nil
	}
	found, err := r.Targets.Find(ctx, service.Namespace, service.Name)
	if errors.Is(err, target.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if found.MemoryError != nil || !found.Memory.UnderWay() || found.Deleting {
		return nil
	}
	state, err := r.state(ctx, found)
	if err != nil {
		return err
	}
	view, err := r.View(ctx, found)
	if err != nil {
		return err
	}
	next := rollout.End(view, state, r.Clock.Now())
	return r.act(ctx, found, next)
}

// state tells how far the holder is; one whose steps still move traffic is not over, even if its PipelineRun is (a
// cancelled one is "done" at once).
func (r *Reconciler) state(ctx context.Context, found *target.Target) (rollout.HolderState, error) {
	state, err := r.Holders.State(ctx, found.Namespace, found.Memory.Holder)
	if err != nil || state == rollout.HolderRunning {
		return state, err
	}
	unfinished, err := r.Unfinished.Unfinished(found.Namespace, found.Memory.Holder.UID)
	if unfinished {
		return rollout.HolderRunning, err
	}
	return state, err
}

func (r *Reconciler) act(ctx context.Context, found *target.Target, next rollout.Next) reconciler.Event {
	if next.Memory == nil {
		if next.Message != "" {
			return controller.NewRequeueAfter(recheck)
		}
		return controller.NewRequeueAfter(recheckHolder)
	}
	recorder := controller.GetEventRecorder(ctx)
	object := &corev1.ObjectReference{
		APIVersion: servingv1.SchemeGroupVersion.String(), Kind: "Service",
		Namespace: found.Namespace, Name: found.Name, UID: found.UID,
	}
	subject := access.Subject{Namespace: found.Namespace, ServiceAccount: found.Memory.ServiceAccount}
	events, err := r.Apply(ctx, subject, found, next)
	var refused *step.NeedsUser
	if errors.As(err, &refused) {
		recorder.Event(object, corev1.EventTypeWarning, string(refused.Reason), "The rollout cannot be ended: "+refused.Message)
		return controller.NewRequeueAfter(recheckHolder)
	}
	if err != nil {
		return err
	}
	for _, event := range events {
		kind := corev1.EventTypeNormal
		if event.Warning {
			kind = corev1.EventTypeWarning
		}
		recorder.Event(object, kind, event.Reason, event.Message)
	}
	if next.Memory.UnderWay() {
		return controller.NewRequeueAfter(recheck)
	}
	return nil
}
