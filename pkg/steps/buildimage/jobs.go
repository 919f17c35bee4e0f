// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package buildimage

import (
	"context"
	"fmt"
	"io"
	"strings"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	tektonclient "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sluice-dev/sluice/pkg/access"
	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

const (
	// maxLogLines and maxLogBytes bound a step's last words, which go into one message.
	maxLogLines = 6
	maxLogBytes = 600
)

// Access answers whether a service account may do something.
type Access interface {
	Allowed(ctx context.Context, subject access.Subject, action access.Action) error
}

// TaskRuns are Jobs on a real cluster.
type TaskRuns struct {
	Tekton tektonclient.Interface
	Kube   kubernetes.Interface
	Access Access
}

var _ Jobs = TaskRuns{}

func subjectOf(run *step.Run) access.Subject {
	return access.Subject{Namespace: run.CustomRun.Namespace, ServiceAccount: run.ServiceAccount()}
}

// Ensure returns the child, making it if it is not there.
func (t TaskRuns) Ensure(ctx context.Context, run *step.Run, job job, pinned types.UID) (*pipelinev1.TaskRun, error) {
	expected := job.taskRun(run)
	runs := t.Tekton.TektonV1().TaskRuns(expected.Namespace)
	found, err := runs.Get(ctx, expected.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && pinned != "":
		return nil, step.Refuse(v1alpha1.ReasonBuildFailed, "TaskRun "+expected.Name+" was deleted while it ran")
	case apierrors.IsNotFound(err):
		if err := t.Access.Allowed(ctx, subjectOf(run), access.Action{Verb: "create", Group: "tekton.dev", Resource: "taskruns"}); err != nil {
			return nil, err
		}
		made, err := runs.Create(ctx, expected, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return nil, step.Refuse(v1alpha1.ReasonInvalidParams, "Tekton refused the build's TaskRun: "+err.Error())
		}
		return made, err
	case err != nil:
		return nil, fmt.Errorf("cannot read TaskRun %s: %w", expected.Name, err)
	case pinned != "" && found.UID == pinned:
		return found, nil
	case pinned != "" || !ours(found, expected, run.CustomRun):
		return nil, step.Refuse(v1alpha1.ReasonConflict, "TaskRun "+expected.Name+" is not the one that this run makes: it is not believed; delete it and start again")
	default:
		return found, nil
	}
}

// Stop asks the run's children to stop, and reports whether all are over.
func (t TaskRuns) Stop(ctx context.Context, run *step.Run) (bool, error) {
	runs := t.Tekton.TektonV1().TaskRuns(run.CustomRun.Namespace)
	over := true
	for _, suffix := range []string{"-resolve", "-build"} {
		child, err := runs.Get(ctx, childName(run.CustomRun, suffix), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		if !metav1.IsControlledBy(child, run.CustomRun) || ended(child) {
			continue
		}
		over = false
		if child.IsCancelled() {
			continue
		}
		patch := []byte(fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"status":%q}}`, child.UID, pipelinev1.TaskRunSpecStatusCancelled))
		if _, err := runs.Patch(ctx, child.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return false, err
		}
	}
	return over, nil
}

// LastWords are the last lines that a step of a child wrote, if the run's service account may read them.
func (t TaskRuns) LastWords(ctx context.Context, run *step.Run, child *pipelinev1.TaskRun, state *pipelinev1.StepState) string {
	action := access.Action{Verb: "get", Resource: "pods", Subresource: "log", Name: child.Status.PodName}
	if child.Status.PodName == "" || t.Access.Allowed(ctx, subjectOf(run), action) != nil {
		return ""
	}
	lines, limit := int64(maxLogLines), int64(maxLogBytes*maxLogLines)
	stream, err := t.Kube.CoreV1().Pods(child.Namespace).GetLogs(child.Status.PodName, &corev1.PodLogOptions{
		Container: state.Container, TailLines: &lines, LimitBytes: &limit,
	}).Stream(ctx)
	if err != nil {
		return ""
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, limit))
	if err != nil {
		return ""
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	if len(words) > maxLogBytes {
		words = "..." + words[len(words)-maxLogBytes:]
	}
	return strings.ToValidUTF8(words, "")
}
