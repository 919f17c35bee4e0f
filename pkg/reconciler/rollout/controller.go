// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	ksvcreconciler "knative.dev/serving/pkg/client/injection/reconciler/serving/v1/service"

	"github.com/sluice-dev/sluice/pkg/informers"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

// agentName is under which name Events appear.
const agentName = "sluice"

// NewController wires the reconciler: what wakes the end of a rollout.
func NewController(ctx context.Context, watched *informers.Set, r *Reconciler) *controller.Impl {
	impl := ksvcreconciler.NewImpl(ctx, r, func(*controller.Impl) controller.Options {
		return controller.Options{AgentName: agentName, FinalizerName: "rollout.sluice.dev", SkipStatusUpdates: true}
	})
	_, _ = watched.Services.AddEventHandler(controller.HandleAll(impl.Enqueue))
	_, _ = watched.Routes.AddEventHandler(controller.HandleAll(impl.Enqueue))
	_, _ = watched.PipelineRuns.AddEventHandler(controller.HandleAll(func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if run, ok := object.(metav1.Object); ok {
			for _, key := range watched.HeldBy(run.GetUID()) {
				impl.EnqueueKey(key)
			}
		}
	}))
	_, _ = watched.CustomRuns.AddEventHandler(controller.HandleAll(func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		run, ok := object.(*v1beta1.CustomRun)
		if !ok {
			return
		}
		if state, err := step.ReadState(run); err == nil && state.Target != nil {
			impl.EnqueueKey(types.NamespacedName{Namespace: run.Namespace, Name: state.Target.Name})
		}
	}))
	return impl
}
