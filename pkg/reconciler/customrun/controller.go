// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package customrun

import (
	"context"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	customrunreconciler "github.com/tektoncd/pipeline/pkg/client/injection/reconciler/pipeline/v1beta1/customrun"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"

	"github.com/sluice-dev/sluice/pkg/informers"
)

// AgentName is under which name Events appear.
const AgentName = "sluice"

// NewController wires the reconciler: what wakes a run.
func NewController(ctx context.Context, watched *informers.Set, r *Reconciler) *controller.Impl {
	impl := customrunreconciler.NewImpl(ctx, r, func(*controller.Impl) controller.Options {
		return controller.Options{AgentName: AgentName, FinalizerName: "sluice.dev", SkipStatusUpdates: true}
	})
	_, _ = watched.CustomRuns.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(object any) bool {
			run, ok := object.(*v1beta1.CustomRun)
			return ok && Ours(run)
		},
		Handler: controller.HandleAll(impl.Enqueue),
	})
	onTarget := controller.HandleAll(func(object any) {
		for _, run := range watched.UnfinishedOn(object) {
			impl.EnqueueKey(run)
		}
	})
	_, _ = watched.Services.AddEventHandler(onTarget)
	_, _ = watched.Routes.AddEventHandler(onTarget)
	_, _ = watched.TaskRuns.AddEventHandler(controller.HandleAll(impl.EnqueueControllerOf))
	return impl
}
