// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package deployrevision

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"knative.dev/pkg/kmeta"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
)

// unnamed stands for the name of a container without one while templates are merged: it is what Knative calls it.
const unnamed = "user-container"

// change is what DeployRevision does to a template.
type change struct {
	Image  string
	Patch  string
	Commit string
	Name   string
}

// apply makes the template wanted out of the one found.
func (c change) apply(service string, found servingv1.RevisionTemplateSpec) (servingv1.RevisionTemplateSpec, error) {
	wanted := *found.DeepCopy()
	if c.Patch != "" {
		merged, err := merge(wanted, c.Patch)
		if err != nil {
			return wanted, fmt.Errorf("template: %w", err)
		}
		wanted = merged
	}
	if c.Image != "" {
		at, err := servingContainer(wanted)
		if err != nil {
			return wanted, fmt.Errorf("image: %w", err)
		}
		wanted.Spec.Containers[at].Image = c.Image
	}
	if c.Commit != "" {
		annotate(&wanted, v1alpha1.CommitAnnotation, c.Commit)
	}
	switch {
	case c.Name != "":
		wanted.Name = c.Name
	case found.Name != "" && !same(found, wanted):
		wanted.Name = kmeta.ChildName(service, "-"+hash(wanted)[:nameHashLength])
	}
	return wanted, nil
}

// nameHashLength is enough to tell the revisions of one Service apart.
const nameHashLength = 5

// again makes a template differ from one whose revision failed, so that Knative makes a new revision.
func again(wanted servingv1.RevisionTemplateSpec) servingv1.RevisionTemplateSpec {
	out := *wanted.DeepCopy()
	attempt, err := strconv.Atoi(out.Annotations[v1alpha1.AttemptAnnotation])
	if err != nil {
		attempt = 1
	}
	annotate(&out, v1alpha1.AttemptAnnotation, strconv.Itoa(attempt+1))
	return out
}

func annotate(template *servingv1.RevisionTemplateSpec, key, value string) {
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[key] = value
}

// merge applies a strategic merge patch, as kubectl patch does, after refusing fields that do not exist.
func merge(found servingv1.RevisionTemplateSpec, patch string) (servingv1.RevisionTemplateSpec, error) {
	var typed servingv1.RevisionTemplateSpec
	if err := yaml.UnmarshalStrict([]byte(patch), &typed); err != nil {
		return found, errors.New("is not a revision template: " + strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "))
	}
	raw := map[string]any{}
	if err := yaml.Unmarshal([]byte(patch), &raw); err != nil {
		return found, err
	}
	nameContainers(raw)
	patchJSON, err := json.Marshal(raw)
	if err != nil {
		return found, err
	}
	hadNoName := map[int]bool{}
	named := *found.DeepCopy()
	for i := range named.Spec.Containers {
		if named.Spec.Containers[i].Name == "" {
			hadNoName[i] = true
			named.Spec.Containers[i].Name = unnamed
		}
	}
	foundJSON, err := json.Marshal(named)
	if err != nil {
		return found, err
	}
	mergedJSON, err := strategicpatch.StrategicMergePatch(foundJSON, patchJSON, servingv1.RevisionTemplateSpec{})
	if err != nil {
		return found, err
	}
	var merged servingv1.RevisionTemplateSpec
	if err := json.Unmarshal(mergedJSON, &merged); err != nil {
		return found, err
	}
	for i := range merged.Spec.Containers {
		if len(hadNoName) > 0 && merged.Spec.Containers[i].Name == unnamed {
			merged.Spec.Containers[i].Name = ""
		}
	}
	return merged, nil
}

// nameContainers gives the containers of a patch that have no name the one they merge by.
func nameContainers(raw map[string]any) {
	spec, _ := raw["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	for _, container := range containers {
		if fields, ok := container.(map[string]any); ok && fields["name"] == nil {
			fields["name"] = unnamed
		}
	}
}

// servingContainer is the container that takes the requests: the only one, or the only one with a port.
func servingContainer(template servingv1.RevisionTemplateSpec) (int, error) {
	containers := template.Spec.Containers
	if len(containers) == 1 {
		return 0, nil
	}
	at := -1
	for i := range containers {
		if len(containers[i].Ports) == 0 {
			continue
		}
		if at >= 0 {
			return 0, errors.New("several containers have a port: name the container in template instead")
		}
		at = i
	}
	if at < 0 {
		return 0, fmt.Errorf("%d containers and none with a port: name the container in template instead", len(containers))
	}
	return at, nil
}

// same reports whether two templates make the same revision, but for their names and the commit noted on them: another
// commit with the same image is no other revision.
func same(a, b servingv1.RevisionTemplateSpec) bool {
	return equality.Semantic.DeepEqual(plain(a), plain(b))
}

func plain(template servingv1.RevisionTemplateSpec) servingv1.RevisionTemplateSpec {
	out := *template.DeepCopy()
	out.Name = ""
	delete(out.Annotations, v1alpha1.CommitAnnotation)
	if len(out.Annotations) == 0 {
		out.Annotations = nil
	}
	out.Spec.SetDefaults(context.Background()) //nolint:contextcheck // Knative's defaults, from no config: both sides alike.
	return out
}

// hash is of all that a template says.
func hash(template servingv1.RevisionTemplateSpec) string {
	data, err := json.Marshal(template)
	if err != nil {
		// A template that was read from the API server can be written as JSON.
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:16]
}
