// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
)

// FieldManager is under which name our writes appear in managedFields.
const FieldManager = "sluice"

// Change is one write to a target. What is nil stays as it is.
type Change struct {
	Memory   *rollout.Memory
	Table    []rollout.Entry
	Template *servingv1.RevisionTemplateSpec
}

// Write changes the target in one request, on the condition that nobody has changed it since it was read: a conflict
// (apierrors.IsConflict) otherwise. The memory goes with the table and the template that it speaks of, so that no
// crash can part them.
func (c Client) Write(ctx context.Context, t *Target, change Change) error {
	_, err := c.write(ctx, t, change, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

// DryRun asks whether the API server, and Knative's webhook, would take a change, and returns the target as it would
// then be, with everything filled in that they fill in; nothing is written.
func (c Client) DryRun(ctx context.Context, t *Target, change Change) (*Target, error) {
	return c.write(ctx, t, change, metav1.PatchOptions{FieldManager: FieldManager, DryRun: []string{metav1.DryRunAll}})
}

func (c Client) write(ctx context.Context, t *Target, change Change, options metav1.PatchOptions) (*Target, error) {
	patch, err := patchFor(t.service, change)
	if err != nil {
		return nil, err
	}
	service, err := c.Serving.Services(t.Namespace).Patch(ctx, t.Name, types.MergePatchType, patch, options)
	if err != nil {
		return nil, err
	}
	return fromService(service), nil
}

// patchFor is the merge patch that makes the change and nothing else.
func patchFor(service *servingv1.Service, change Change) ([]byte, error) {
	wanted := service.DeepCopy()
	if change.Memory != nil {
		text, err := change.Memory.Encode()
		if err != nil {
			return nil, err
		}
		if wanted.Annotations == nil {
			wanted.Annotations = map[string]string{}
		}
		wanted.Annotations[v1alpha1.RolloutAnnotation] = text
	}
	if change.Table != nil {
		wanted.Spec.Traffic = rollout.ToTraffic(change.Table)
	}
	if change.Template != nil {
		wanted.Spec.Template = *change.Template.DeepCopy()
	}
	before, err := json.Marshal(service)
	if err != nil {
		return nil, fmt.Errorf("cannot write the Service as JSON: %w", err)
	}
	after, err := json.Marshal(wanted)
	if err != nil {
		return nil, fmt.Errorf("cannot write the Service as JSON: %w", err)
	}
	diff, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, fmt.Errorf("cannot compute the patch of the Service: %w", err)
	}
	patch := map[string]any{}
	if err := json.Unmarshal(diff, &patch); err != nil {
		return nil, fmt.Errorf("cannot compute the patch of the Service: %w", err)
	}
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["resourceVersion"], metadata["uid"] = service.ResourceVersion, service.UID
	return json.Marshal(patch)
}
