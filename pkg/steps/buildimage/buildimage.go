// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package buildimage is the kind BuildImage: it makes an image from a commit, by a TaskRun of the builder that the
// operator chose. The TaskRun's own results carry IMAGE_URL and IMAGE_DIGEST, so that Tekton Chains signs the image.
package buildimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-dev/sluice/pkg/access"
	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/builder"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

const (
	defaultDeadline   = 30 * time.Minute
	defaultContext    = "."
	defaultDockerfile = "Dockerfile"
	// recheck is when to look at a build again, should a watch event be lost.
	recheck = 10 * time.Second
	// stopWithin is how long a build that is being stopped may take to end.
	stopWithin = 60 * time.Second
)

var (
	fullCommit = regexp.MustCompile(`^[0-9a-f]{40}$|^[0-9a-f]{64}$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// Deps is what the kind needs of the world.
type Deps struct {
	Jobs     Jobs
	Builders Builders
	Registry Registry
}

// Jobs makes, reads and stops child TaskRuns.
type Jobs interface {
	// Ensure returns the child, making it if it is not there. One under its name that is not the run's is an error.
	Ensure(ctx context.Context, run *step.Run, job job, pinned types.UID) (*pipelinev1.TaskRun, error)
	// Stop asks the run's children to stop, and reports whether all are over.
	Stop(ctx context.Context, run *step.Run) (bool, error)
	// LastWords are the last lines that a step of a child wrote; empty if they cannot be had.
	LastWords(ctx context.Context, run *step.Run, child *pipelinev1.TaskRun, state *pipelinev1.StepState) string
}

// Builders finds builders and their Tasks.
type Builders interface {
	Find(ctx context.Context, name string) (builder.Builder, error)
	Task(ctx context.Context, name string) (*pipelinev1.TaskSpec, error)
}

// Registry tells whether an image is there already.
type Registry interface {
	Digest(ctx context.Context, subject access.Subject, image string) (string, error)
}

// Kind is the kind BuildImage.
func Kind(deps Deps) step.Kind {
	kind, _ := v1alpha1.FindKind(v1alpha1.BuildImage)
	return step.Kind{Kind: kind, New: func(params *step.Params) step.Step { return newStep(deps, params) }}
}

type buildImage struct {
	Deps
	url, revision, image string
	context, dockerfile  string
	buildArgs            []string
	builder              string
	reuse                bool
	deadline             time.Duration
}

// own is what the kind pins.
type own struct {
	// Commit is what the revision stands for, found once.
	Commit string `json:"commit,omitempty"`
	// Asked says that the registry was asked for the image, and had none.
	Asked bool `json:"asked,omitempty"`
	// Resolve and Build are the UIDs of the children.
	Resolve types.UID `json:"resolve,omitempty"`
	Build   types.UID `json:"build,omitempty"`
}

func newStep(deps Deps, given *step.Params) step.Step {
	build := &buildImage{
		Deps:       deps,
		url:        given.Required("url", ": the git repository"),
		revision:   given.Required("revision", ": a commit, branch or tag"),
		image:      given.Required("image", ": the image's repository, for example registry/team/app"),
		context:    given.String("context", defaultContext),
		dockerfile: given.String("dockerfile", defaultDockerfile),
		builder:    given.String("builder", ""),
		reuse:      given.Bool("reuse", true),
		deadline:   given.Duration("deadline", defaultDeadline, time.Second),
	}
	for _, pair := range given.Assignments("buildArgs", "NAME=value") {
		build.buildArgs = append(build.buildArgs, pair[0]+"="+pair[1])
	}
	if build.image != "" {
		if _, err := name.NewRepository(build.image, name.WeakValidation); err != nil {
			given.Problem("image: %q is not an image repository without a tag, since the tag is the commit: write for example registry/team/app", build.image)
		}
	}
	for _, path := range []struct{ param, value string }{{"context", build.context}, {"dockerfile", build.dockerfile}} {
		if strings.HasPrefix(path.value, "/") || strings.Contains("/"+path.value+"/", "/../") {
			given.Problem("%s: %q leaves the repository", path.param, path.value)
		}
	}
	for _, value := range []struct{ param, value string }{{"url", build.url}, {"revision", build.revision}} {
		if strings.HasPrefix(value.value, "-") || strings.ContainsAny(value.value, " \t\n") {
			given.Problem("%s: %q would not be taken for one by git", value.param, value.value)
		}
	}
	return build
}

// Reconcile does one pass.
func (b *buildImage) Reconcile(ctx context.Context, run *step.Run) (step.Outcome, error) {
	pinned, err := step.Pinned[own](run.State)
	if err != nil {
		return step.Outcome{}, err
	}
	out, err := b.next(ctx, run, &pinned)
	if pinErr := step.PinOwn(run.State, pinned); pinErr != nil {
		return step.Outcome{}, pinErr
	}
	if err != nil {
		var unknown *builder.UnknownError
		if errors.As(err, &unknown) {
			return step.Failure(v1alpha1.ReasonInvalidParams, unknown.Error()), nil
		}
		return step.EndOrRetry(err)
	}
	return out, nil
}

// Cancel stops the children, and waits until they have.
func (b *buildImage) Cancel(ctx context.Context, run *step.Run) (step.Outcome, error) {
	over, err := b.Jobs.Stop(ctx, run)
	switch {
	case err != nil:
		return step.EndOrRetry(err)
	case over:
		return step.Failure("", "The build has stopped"), nil
	case run.Now.Sub(run.State.Stopping.Since) > stopWithin:
		return step.Failure("", "The build was told to stop, and has not within a minute"), nil
	default:
		return step.Waiting("The build is stopping", recheck), nil
	}
}

// next finds the commit, then the image in the registry, else builds it.
func (b *buildImage) next(ctx context.Context, run *step.Run, pinned *own) (step.Outcome, error) {
	if pinned.Commit == "" && fullCommit.MatchString(b.revision) {
		pinned.Commit = b.revision
	}
	if pinned.Commit == "" {
		return b.resolve(ctx, run, pinned)
	}
	image := b.tagged(pinned.Commit)
	if b.reuse && !pinned.Asked && pinned.Build == "" {
		subject := access.Subject{Namespace: run.CustomRun.Namespace, ServiceAccount: run.ServiceAccount()}
		// A registry that does not say is no reason not to build.
		if digest, err := b.Registry.Digest(ctx, subject, image); err == nil && digest != "" {
			return b.built(image, digest, pinned.Commit, true), nil
		}
		pinned.Asked = true
	}
	return b.build(ctx, run, pinned, image)
}

// resolve finds the commit that a branch or tag stands for.
func (b *buildImage) resolve(ctx context.Context, run *step.Run, pinned *own) (step.Outcome, error) {
	chosen, err := b.Builders.Find(ctx, b.builder)
	if err != nil {
		return step.Outcome{}, err
	}
	if chosen.Resolve == "" {
		return step.Outcome{}, step.Refuse(v1alpha1.ReasonInvalidParams,
			"revision: this builder takes full commits only (its entry in ConfigMap config-builders has no resolve): "+b.revision+" is none")
	}
	child, err := b.run(ctx, run, chosen, chosen.Resolve, "-resolve", nil, pinned.Resolve)
	if err != nil {
		return step.Outcome{}, err
	}
	pinned.Resolve = child.UID
	if !ended(child) {
		return step.Working(fmt.Sprintf("Finding the commit of %s (%s)", b.revision, progress(child)), recheck), nil
	}
	commit := result(child, "commit")
	if !fullCommit.MatchString(commit) {
		return b.failed(ctx, run, child, "the commit of "+b.revision+" could not be found"), nil
	}
	pinned.Commit = commit
	return step.Working(b.revision+" is commit "+commit, time.Millisecond), nil
}

// build runs the builder's Task.
func (b *buildImage) build(ctx context.Context, run *step.Run, pinned *own, image string) (step.Outcome, error) {
	chosen, err := b.Builders.Find(ctx, b.builder)
	if err != nil {
		return step.Outcome{}, err
	}
	child, err := b.run(ctx, run, chosen, chosen.Task, "-build", map[string]pipelinev1.ParamValue{
		"revision":   *pipelinev1.NewStructuredValues(pinned.Commit),
		"IMAGE":      *pipelinev1.NewStructuredValues(image),
		"CONTEXT":    *pipelinev1.NewStructuredValues(b.context),
		"DOCKERFILE": *pipelinev1.NewStructuredValues(b.dockerfile),
		"BUILD_ARGS": {Type: pipelinev1.ParamTypeArray, ArrayVal: append([]string{}, b.buildArgs...)},
	}, pinned.Build)
	if err != nil {
		return step.Outcome{}, err
	}
	pinned.Build = child.UID
	if !ended(child) {
		return step.Working(fmt.Sprintf("Building %s (TaskRun %s, %s)", image, child.Name, progress(child)), recheck), nil
	}
	digest := result(child, "IMAGE_DIGEST")
	if failedStep(child) != nil || !digestForm.MatchString(digest) {
		return b.failed(ctx, run, child, "the image was not built"), nil
	}
	return b.built(image, digest, pinned.Commit, false), nil
}

// run makes or finds one child.
func (b *buildImage) run(ctx context.Context, run *step.Run, chosen builder.Builder, task, suffix string,
	params map[string]pipelinev1.ParamValue, pinned types.UID,
) (*pipelinev1.TaskRun, error) {
	spec, err := b.Builders.Task(ctx, task)
	if err != nil {
		return nil, err
	}
	all := map[string]pipelinev1.ParamValue{
		"url": *pipelinev1.NewStructuredValues(b.url), "revision": *pipelinev1.NewStructuredValues(b.revision),
	}
	for name, value := range chosen.Params {
		all[name] = *pipelinev1.NewStructuredValues(value)
	}
	for name, value := range params {
		all[name] = value
	}
	timeout := b.deadline
	if left, limited := run.Remaining(); limited && left < timeout {
		timeout = max(left, time.Second).Truncate(time.Second)
	}
	return b.Jobs.Ensure(ctx, run, job{Suffix: suffix, Task: spec, Params: all, Timeout: timeout}, pinned)
}

// failed is the bad end of a child: which step, and its last words.
func (b *buildImage) failed(ctx context.Context, run *step.Run, child *pipelinev1.TaskRun, what string) step.Outcome {
	condition := child.Status.GetCondition("Succeeded")
	reason := v1alpha1.ReasonBuildFailed
	if condition.Reason == string(pipelinev1.TaskRunReasonTimedOut) {
		reason = v1alpha1.ReasonDeadlineExceeded
	}
	state := failedStep(child)
	if state == nil {
		return step.Failure(reason, fmt.Sprintf("%s (TaskRun %s, %s: %s)", what, child.Name, condition.Reason, condition.Message))
	}
	message := fmt.Sprintf("%s (TaskRun %s, step %s ended with %d)", what, child.Name, state.Name, state.Terminated.ExitCode)
	if words := b.Jobs.LastWords(ctx, run, child, state); words != "" {
		message += ": " + words
	}
	return step.Failure(reason, message)
}

// built is the good end.
func (b *buildImage) built(image, digest, commit string, reused bool) step.Outcome {
	message := "Built " + b.image + "@" + digest + " from " + commit
	if reused {
		message = "The registry has " + image + " already: " + digest
	}
	return step.Success(message, map[string]string{
		"IMAGE_URL": image, "IMAGE_DIGEST": digest, "image": b.image + "@" + digest, "commit": commit, "reused": strconv.FormatBool(reused),
	})
}

// tagged is the image with its tag: the commit, and a hash of what else makes the image another one.
func (b *buildImage) tagged(commit string) string {
	tag := commit
	if b.context != defaultContext || b.dockerfile != defaultDockerfile || len(b.buildArgs) > 0 {
		data, err := json.Marshal([]any{b.context, b.dockerfile, b.buildArgs})
		if err == nil {
			sum := sha256.Sum256(data)
			tag += "-" + hex.EncodeToString(sum[:])[:8]
		}
	}
	return b.image + ":" + tag
}
