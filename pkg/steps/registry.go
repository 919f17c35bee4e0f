// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package steps lists the kinds of custom tasks that there are.
package steps

import (
	"github.com/sluice-dev/sluice/pkg/steps/awaitready"
	"github.com/sluice-dev/sluice/pkg/steps/buildimage"
	"github.com/sluice-dev/sluice/pkg/steps/deployrevision"
	"github.com/sluice-dev/sluice/pkg/steps/onservice"
	"github.com/sluice-dev/sluice/pkg/steps/rollback"
	"github.com/sluice-dev/sluice/pkg/steps/settraffic"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

// Deps is what the kinds need of the world.
type Deps struct {
	OnService onservice.Deps
	Build     buildimage.Deps
}

// Kinds are all kinds, by name. A new kind is one line here.
func Kinds(deps Deps) map[string]step.Kind {
	kinds := map[string]step.Kind{}
	for _, kind := range []step.Kind{
		buildimage.Kind(deps.Build),
		deployrevision.Kind(deps.OnService),
		awaitready.Kind(deps.OnService),
		settraffic.Kind(deps.OnService),
		rollback.Kind(deps.OnService),
	} {
		kinds[kind.Name] = kind
	}
	return kinds
}
