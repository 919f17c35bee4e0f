// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package buildimage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/kmeta"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

// job is one child TaskRun.
type job struct {
	// Suffix tells the children of one run apart.
	Suffix string
	Task   *pipelinev1.TaskSpec
	// Params are offered to the Task, which takes those that it declares.
	Params map[string]pipelinev1.ParamValue
	// Timeout is the TaskRun's.
	Timeout time.Duration
}

// childName is known ahead of time, so that a child is made once whatever happens. Each attempt has its own.
func childName(run *v1beta1.CustomRun, suffix string) string {
	if attempt := run.GetRetryCount(); attempt > 0 {
		suffix = fmt.Sprintf("%s-r%d", suffix, attempt)
	}
	return kmeta.ChildName(run.Name, suffix)
}

// taskRun is the child: with the run's service account and workspaces, and owned by it.
func (j job) taskRun(run *step.Run) *pipelinev1.TaskRun {
	customRun := run.CustomRun
	child := &pipelinev1.TaskRun{
		ObjectMeta: metav1.ObjectMeta{
			Name: childName(customRun, j.Suffix), Namespace: customRun.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(customRun, v1beta1.SchemeGroupVersion.WithKind("CustomRun"))},
			Labels:          map[string]string{v1alpha1.CustomRunLabel: kmeta.ChildName(customRun.Name, "")},
		},
		Spec: pipelinev1.TaskRunSpec{
			TaskSpec: j.Task.DeepCopy(), ServiceAccountName: run.ServiceAccount(),
			Timeout: &metav1.Duration{Duration: j.Timeout}, Workspaces: workspaces(customRun, j.Task),
		},
	}
	for _, declared := range j.Task.Params {
		if value, ok := j.Params[declared.Name]; ok {
			child.Spec.Params = append(child.Spec.Params, pipelinev1.Param{Name: declared.Name, Value: value})
		}
	}
	return child
}

// workspaces are the run's, as far as the Task declares them; one that the Task needs and the run does not give is
// empty at first and gone with the pod.
func workspaces(run *v1beta1.CustomRun, task *pipelinev1.TaskSpec) []pipelinev1.WorkspaceBinding {
	var out []pipelinev1.WorkspaceBinding
	for _, declared := range task.Workspaces {
		i := slices.IndexFunc(run.Spec.Workspaces, func(w v1beta1.WorkspaceBinding) bool { return w.Name == declared.Name })
		switch {
		case i >= 0:
			given := run.Spec.Workspaces[i]
			out = append(out, pipelinev1.WorkspaceBinding{
				Name: given.Name, SubPath: given.SubPath, VolumeClaimTemplate: given.VolumeClaimTemplate,
				PersistentVolumeClaim: given.PersistentVolumeClaim, EmptyDir: given.EmptyDir, ConfigMap: given.ConfigMap,
				Secret: given.Secret, Projected: given.Projected, CSI: given.CSI,
			})
		case !declared.Optional:
			out = append(out, pipelinev1.WorkspaceBinding{Name: declared.Name, EmptyDir: &corev1.EmptyDirVolumeSource{}})
		}
	}
	return out
}

// ours reports whether a TaskRun found under the child's name is the one that this run made, or would make: owned by
// it, with the very Task, params and service account. A name proves nothing (CVE-2023-37264).
func ours(found, expected *pipelinev1.TaskRun, run *v1beta1.CustomRun) bool {
	expected = expected.DeepCopy()
	expected.SetDefaults(context.Background()) //nolint:contextcheck // Tekton's defaults, from no config.
	return metav1.IsControlledBy(found, run) &&
		found.Spec.TaskRef == nil &&
		equality.Semantic.DeepEqual(found.Spec.TaskSpec, expected.Spec.TaskSpec) &&
		equality.Semantic.DeepEqual(found.Spec.Params, expected.Spec.Params) &&
		found.Spec.ServiceAccountName == expected.Spec.ServiceAccountName
}

// ended reports whether a child is over.
func ended(child *pipelinev1.TaskRun) bool {
	return !child.Status.GetCondition(apis.ConditionSucceeded).IsUnknown()
}

// progress tells what a child is doing.
func progress(child *pipelinev1.TaskRun) string {
	for _, state := range child.Status.Steps {
		if state.Running != nil {
			return "step " + state.Name
		}
	}
	condition := child.Status.GetCondition(apis.ConditionSucceeded)
	if condition != nil && condition.Reason != "" {
		return strings.ToLower(condition.Reason)
	}
	return "starting"
}

// failedStep is the first step of a child that went wrong; empty if none did.
func failedStep(child *pipelinev1.TaskRun) *pipelinev1.StepState {
	for i, state := range child.Status.Steps {
		if state.Terminated != nil && state.Terminated.ExitCode != 0 {
			return &child.Status.Steps[i]
		}
	}
	return nil
}

// result is a child's result of that name.
func result(child *pipelinev1.TaskRun, name string) string {
	for _, result := range child.Status.Results {
		if result.Name == name {
			return strings.TrimSpace(result.Value.StringVal)
		}
	}
	return ""
}
