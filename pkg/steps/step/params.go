// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package step

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
)

// Bounds of what a run may ask for, each with its reason.
const (
	// maxParamBytes: the largest param is a template; etcd takes 1.5 MiB for the whole CustomRun.
	maxParamBytes = 64 << 10
	// maxItems of a list: a rollout of more than 100 steps is a mistake.
	maxItems = 100
	// maxDuration: longer waits overflow nothing, but nobody means them.
	maxDuration = 30 * 24 * time.Hour
)

// Params reads a run's params, and collects every mistake instead of stopping at the first.
type Params struct {
	kind     v1alpha1.Kind
	given    map[string]v1beta1.ParamValue
	problems []string
}

// ReadParams checks the names and types of a run's params against what the kind takes.
func ReadParams(kind v1alpha1.Kind, given v1beta1.Params) *Params {
	params := &Params{kind: kind, given: map[string]v1beta1.ParamValue{}}
	for _, param := range given {
		known := slices.IndexFunc(kind.Params, func(p v1alpha1.Param) bool { return p.Name == param.Name })
		if known < 0 {
			params.Problem("unknown param %q%s", param.Name, suggestion(kind, param.Name))
			continue
		}
		if size := sizeOf(param.Value); size > maxParamBytes {
			params.Problem("%s: %d bytes, at most %d are taken", param.Name, size, maxParamBytes)
			continue
		}
		wants, is := kind.Params[known].Type, param.Value.Type
		switch {
		case wants == v1alpha1.String && is != "" && is != v1beta1.ParamTypeString:
			params.Problem("%s: is an %s, want a string", param.Name, is)
		case wants == v1alpha1.List && is == v1beta1.ParamTypeObject:
			params.Problem("%s: is an object, want a list", param.Name)
		case wants == v1alpha1.Object && is != v1beta1.ParamTypeObject:
			params.Problem("%s: want an object of names to strings", param.Name)
		default:
			params.given[param.Name] = param.Value
		}
	}
	return params
}

func sizeOf(value v1beta1.ParamValue) int {
	size := len(value.StringVal)
	for _, item := range value.ArrayVal {
		size += len(item)
	}
	for key, item := range value.ObjectVal {
		size += len(key) + len(item)
	}
	return size
}

// suggestion lists the params there are, the one that differs only in how it is written first.
func suggestion(kind v1alpha1.Kind, name string) string {
	var names []string
	for _, param := range kind.Params {
		if strings.EqualFold(strings.NewReplacer("-", "", "_", "").Replace(name), param.Name) {
			return fmt.Sprintf(": did you mean %s?", param.Name)
		}
		names = append(names, param.Name)
	}
	return fmt.Sprintf(": %s takes %s", kind.Name, strings.Join(names, ", "))
}

// Problem notes a mistake: what is wrong, and what is allowed.
func (p *Params) Problem(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// Err is all mistakes in one error of reason InvalidParams, nil if there are none.
func (p *Params) Err() error {
	if len(p.problems) == 0 {
		return nil
	}
	return Refuse(v1alpha1.ReasonInvalidParams, strings.Join(p.problems, "; "))
}

// String is a param's value without surrounding space, fallback if it is absent or empty.
func (p *Params) String(name, fallback string) string {
	if value := strings.TrimSpace(p.given[name].StringVal); value != "" {
		return value
	}
	return fallback
}

// Text is a param's value as it is.
func (p *Params) Text(name string) string { return p.given[name].StringVal }

// Required is a param that must not be empty.
func (p *Params) Required(name, hint string) string {
	value := p.String(name, "")
	if value == "" {
		p.Problem("%s: is missing%s", name, hint)
	}
	return value
}

// OneOf is a param that is one of a few words; the first is the default.
func (p *Params) OneOf(name string, allowed ...string) string {
	value := p.String(name, allowed[0])
	if !slices.Contains(allowed, value) {
		p.Problem("%s: %q is none of %s", name, value, strings.Join(allowed, ", "))
	}
	return value
}

// Bool is a param that is true or false.
func (p *Params) Bool(name string, fallback bool) bool {
	value := p.String(name, strconv.FormatBool(fallback))
	if value != "true" && value != "false" {
		p.Problem("%s: %q is neither true nor false", name, value)
	}
	return value == "true"
}

// Duration is a param in Go's form, at least the least given.
func (p *Params) Duration(name string, fallback, least time.Duration) time.Duration {
	value := p.String(name, "")
	if value == "" {
		return fallback
	}
	duration, err := time.ParseDuration(value)
	switch {
	case err != nil:
		p.Problem("%s: %q is not a duration: write for example 90s, 10m or 1h30m", name, value)
	case duration < least:
		p.Problem("%s: %s is too short, at least %s", name, value, least)
	case duration > maxDuration:
		p.Problem("%s: %s is too long, at most %s", name, value, maxDuration)
	default:
		return duration
	}
	return fallback
}

// Int is a whole number, 0 or more.
func (p *Params) Int(name string, fallback int64) int64 {
	value := p.String(name, "")
	if value == "" {
		return fallback
	}
	number, err := strconv.ParseInt(value, 10, 32)
	if err != nil || number < 0 {
		p.Problem("%s: %q is not a whole number of 0 or more", name, value)
		return fallback
	}
	return number
}

// List is a param with several items: an array, a JSON array in a string (Tekton makes one of a YAML list of numbers),
// or one item a line. Empty items are left out.
func (p *Params) List(name string) []string {
	value := p.given[name]
	items := value.ArrayVal
	text := strings.TrimSpace(value.StringVal)
	switch {
	case strings.HasPrefix(text, "["):
		var raw []any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&raw); err != nil {
			p.Problem("%s: begins like a JSON array and is not one", name)
			return nil
		}
		for _, item := range raw {
			switch item := item.(type) {
			case string:
				items = append(items, item)
			case json.Number:
				items = append(items, item.String())
			default:
				p.Problem("%s: an item is neither a string nor a number", name)
				return nil
			}
		}
	case text != "":
		items = append(items, strings.Split(text, "\n")...)
	}
	var out []string
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	if len(out) > maxItems {
		p.Problem("%s: %d items, at most %d are taken", name, len(out), maxItems)
		return nil
	}
	return out
}

// Object is a param of names to strings.
func (p *Params) Object(name string) map[string]string { return p.given[name].ObjectVal }

// Assignments is a list of NAME=VALUE.
func (p *Params) Assignments(name, example string) [][2]string {
	var out [][2]string
	for i, item := range p.List(name) {
		left, right, found := strings.Cut(item, "=")
		left, right = strings.TrimSpace(left), strings.TrimSpace(right)
		if !found || left == "" || right == "" {
			p.Problem("%s[%d]: %q is not of the form %s", name, i, item, example)
			continue
		}
		out = append(out, [2]string{left, right})
	}
	return out
}
