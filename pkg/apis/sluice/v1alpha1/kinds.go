// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "strings"

// ParamType says how a param may be written.
type ParamType string

const (
	// String is one value.
	String ParamType = "string"
	// List is an array, a JSON array in a string, or one item a line.
	List ParamType = "list"
	// Object is a Tekton object param: names to strings.
	Object ParamType = "object"
)

// Param is one param of a kind.
type Param struct {
	Name string
	Type ParamType
	// Default is what an absent or empty param means, as a person would write it; empty when there is none.
	Default string
	// Doc is one line for people.
	Doc string
}

// Kind is one kind of custom task.
type Kind struct {
	Name string
	// Doc is one line for people.
	Doc string
	// Params are all that the kind takes; any other is a mistake.
	Params []Param
	// Results are all that the kind gives, at every end, beside reason and cause.
	Results []string
	// Workspaces says whether the kind uses workspaces.
	Workspaces bool
}

// Results that every kind gives.
const (
	ResultReason = "reason"
	ResultCause  = "cause"
)

// Names of the kinds.
const (
	BuildImage     = "BuildImage"
	DeployRevision = "DeployRevision"
	AwaitReady     = "AwaitReady"
	SetTraffic     = "SetTraffic"
	CheckMetrics   = "CheckMetrics"
	Rollback       = "Rollback"
)

// Kinds are all kinds of this version, in the order a rollout uses them.
func Kinds() []Kind {
	return []Kind{
		{
			Name: BuildImage,
			Doc:  "makes an image from a commit, by a builder that the operator chose",
			Params: []Param{
				{"url", String, "", "the git repository"},
				{"revision", String, "", "a commit, branch or tag"},
				{"image", String, "", "the image's repository; the tag is the commit"},
				{"context", String, ".", "the folder to build, inside the repository"},
				{"dockerfile", String, "Dockerfile", "the Dockerfile, inside the context"},
				{"buildArgs", List, "", "build arguments, NAME=value each"},
				{"builder", String, "the operator's default", "a builder of ConfigMap config-builders"},
				{"reuse", String, "true", "take the image that the registry already has for this commit"},
				{"deadline", String, "30m", "how long the build may take"},
			},
			Results:    []string{"IMAGE_URL", "IMAGE_DIGEST", "image", "commit", "reused"},
			Workspaces: true,
		},
		{
			Name: DeployRevision,
			Doc:  "stamps a revision out of template and image; moves no traffic",
			Params: onService("2m",
				Param{"image", String, "", "the image, best by digest"},
				Param{"template", String, "", "a strategic merge of the Service's spec.template, as YAML"},
				Param{"commit", String, "", "the commit that the image was built from, kept on the revision"},
				Param{"name", String, "", "the revision's name; without one Knative makes it"},
			),
			Results: []string{"revision", "stable", "changed"},
		},
		{
			Name: AwaitReady,
			Doc:  "waits until revision and route are really ready, and fails as soon as they never will be",
			Params: onService("10m",
				Param{"revision", String, "candidate", "a revision's name, or stable, candidate, previous, latest"},
				Param{"minReplicas", String, "the revision's min-scale", "how many replicas must be ready"},
				Param{"tag", String, "", "makes the revision reachable under this tag"},
			),
			Results: []string{"revision", "url", "address", "imageDigest", "replicas"},
		},
		{
			Name: SetTraffic,
			Doc:  "sets the split and waits until the ingress has it",
			Params: onService("2m",
				Param{"traffic", List, "", "REVISION=PERCENT each; what is left goes to stable"},
				Param{"tags", List, "", "REVISION=TAG each"},
			),
			Results: []string{"traffic", "previous", "changed"},
		},
		{
			Name: CheckMetrics,
			Doc:  "a gate: watches a revision and decides",
			Params: append(onService("30m",
				Param{"revision", String, "candidate", "the revision to watch"},
			), gateParams()...),
			Results: []string{"verdict", "requests", "failedCheck", "report"},
		},
		{
			Name: Rollback,
			Doc:  "ends the rollout by going back; for finally",
			Params: onService("2m",
				Param{"to", String, "the table found", "previous: the stable revision before this one"},
				Param{"force", String, "false", "also go back from a held rollout, or over somebody's edit of the split"},
			),
			Results: []string{"traffic", "revision", "changed"},
		},
	}
}

// FindKind returns the kind of that name, and whether there is one.
func FindKind(name string) (Kind, bool) {
	for _, kind := range Kinds() {
		if kind.Name == name {
			return kind, true
		}
	}
	return Kind{}, false
}

// KindNames returns the names of all kinds, for messages: "BuildImage, DeployRevision, ...".
func KindNames() string {
	var names []string
	for _, kind := range Kinds() {
		names = append(names, kind.Name)
	}
	return strings.Join(names, ", ")
}

// onService adds the params that every kind acting on a Service has.
func onService(deadline string, params ...Param) []Param {
	return append(append([]Param{
		{"service", String, "the label sluice.dev/service of the PipelineRun", "the Service to act on"},
	}, params...),
		Param{"onBusy", String, "wait", "what to do when another rollout has the Service: wait, supersede or fail"},
		Param{"deadline", String, deadline, "how long the step may take"},
	)
}

// gateParams are the params of every kind with a gate, but for deadline.
func gateParams() []Param {
	return []Param{
		{"checks", List, "", "what must hold, one check an item; [\"none\"] looks at nothing and says so"},
		{"for", String, "5m", "how long to watch"},
		{"interval", String, "2s with queue-proxy, 15s with prometheus", "time between looks, 1s at least"},
		{"minRequests", String, "50", "fewer are not enough to go on"},
		{"warmup", String, "10s", "left out of each new pod's life"},
		{"require", String, "noHarm", "noHarm, or proof"},
		{"onFailure", String, "fail", "fail, hold or proceed"},
		{"onInconclusive", String, "hold", "fail, hold or proceed"},
		{"provider", String, "the operator's default", "a provider of ConfigMap config-metrics"},
		{"queries", Object, "", "names to PromQL, for query(NAME)"},
	}
}
