// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Command controller is Sluice: one reconciler for the custom tasks, one for the ends of rollouts.
package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"time"

	pipelineclient "github.com/tektoncd/pipeline/pkg/client/injection/client"
	"k8s.io/utils/clock"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/signals"
	"knative.dev/pkg/system"
	servingclient "knative.dev/serving/pkg/client/injection/client"

	"github.com/sluice-dev/sluice/pkg/access"
	"github.com/sluice-dev/sluice/pkg/builder"
	"github.com/sluice-dev/sluice/pkg/holder"
	"github.com/sluice-dev/sluice/pkg/informers"
	"github.com/sluice-dev/sluice/pkg/reconciler/customrun"
	"github.com/sluice-dev/sluice/pkg/reconciler/rollout"
	"github.com/sluice-dev/sluice/pkg/registry"
	"github.com/sluice-dev/sluice/pkg/steps"
	"github.com/sluice-dev/sluice/pkg/steps/buildimage"
	"github.com/sluice-dev/sluice/pkg/steps/onservice"
	"github.com/sluice-dev/sluice/pkg/target"
)

const (
	// component names the lease, the logs and the metrics.
	component = "sluice"
	// queriesPerSecond and burst are the budget at the API server: a pass makes about eight reads, and knative's
	// default of 5 a second and controller would make every step wait for it.
	queriesPerSecond = 100
	burst            = 200
	// registryTimeout bounds a connection to an image registry.
	registryTimeout = 10 * time.Second
)

func main() {
	cfg := injection.ParseAndGetRESTConfigOrDie()
	cfg.QPS, cfg.Burst = queriesPerSecond, burst
	sharedmain.MainWithConfig(signals.NewContext(), component, cfg, newCustomRuns, newRollouts)
}

// shared is what both reconcilers need, made from the clients and informers in the context.
type shared struct {
	watched *informers.Set
	deps    onservice.Deps
	finder  holder.Finder
	access  *access.Checker
	clock   clock.PassiveClock
}

func share(ctx context.Context) shared {
	watched := informers.Get(ctx)
	now := clock.RealClock{}
	checker := access.NewChecker(kubeclient.Get(ctx).AuthorizationV1(), now)
	return shared{
		watched: watched, access: checker, clock: now,
		finder: holder.Finder{Tekton: pipelineclient.Get(ctx)},
		deps: onservice.Deps{
			Targets: target.Client{Serving: servingclient.Get(ctx).ServingV1()}, Runs: watched, Access: checker,
		},
	}
}

func newCustomRuns(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	s := share(ctx)
	if err := s.watched.Prepare(); err != nil {
		log.Fatal("Cannot prepare the informers: ", err)
	}
	kube, tekton := kubeclient.Get(ctx), pipelineclient.Get(ctx)
	kinds := steps.Kinds(steps.Deps{
		OnService: s.deps,
		Build: buildimage.Deps{
			Jobs:     buildimage.TaskRuns{Tekton: tekton, Kube: kube, Access: s.access},
			Builders: builder.Source{Kube: kube, Tekton: tekton, Namespace: system.Namespace()},
			Registry: registry.Client{Kube: kube, Access: s.access, Transport: registryTransport()},
		},
	})
	return customrun.NewController(ctx, s.watched, &customrun.Reconciler{
		Tekton: tekton, Clock: s.clock, Roots: s.finder, Kinds: kinds,
	})
}

func newRollouts(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	s := share(ctx)
	return rollout.NewController(ctx, s.watched, &rollout.Reconciler{
		Deps: s.deps, Clock: s.clock, Holders: s.finder, Unfinished: s.watched,
	})
}

// registryTransport takes no proxy from the environment and no long waits.
func registryTransport() http.RoundTripper {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: registryTimeout}).DialContext,
		TLSHandshakeTimeout: registryTimeout, ResponseHeaderTimeout: registryTimeout, IdleConnTimeout: time.Minute,
	}
}
