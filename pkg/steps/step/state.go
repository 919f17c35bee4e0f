// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package step

import (
	"fmt"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
)

// ReadState reads a run's memory from its CustomRun; a new one if it has none. A memory that a later release wrote is
// an error: that release must go on with the run.
func ReadState(customRun *v1beta1.CustomRun) (*State, error) {
	state := &State{Version: StateVersion}
	if err := customRun.Status.DecodeExtraFields(state); err != nil {
		return nil, fmt.Errorf("status.extraFields is not this controller's: %w", err)
	}
	if state.Version > StateVersion {
		return nil, fmt.Errorf("status.extraFields is of version %d, and this release knows %d: update the controller", state.Version, StateVersion)
	}
	return state, nil
}
