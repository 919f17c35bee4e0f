// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// release is what is installed from a Go module's own config folder: images built by ko, objects adapted to a node of
// two cores.
type release struct {
	// group is the module, in a folder of its own.
	group group
	// configs are folders and files: a module, and a path in it.
	configs [][2]string
	// skip says which files are left out.
	skip func(path string) bool
	// adapt changes one object; false leaves it out.
	adapt func(object map[string]any) bool
}

// resolve returns the objects of a release, as JSON lists: the definitions of types first. What was resolved once is
// kept, with its images in the registry.
func (c *cluster) resolve(ctx context.Context, r release) (definitions, rest string, err error) {
	key, err := r.group.key(c.root)
	if err != nil {
		return "", "", err
	}
	kept := filepath.Join(c.cache, "resolved", r.group.folder+"-"+key+"-"+imagesVersion+".yaml")
	resolved, err := os.ReadFile(kept)
	if err != nil {
		if resolved, err = c.build(ctx, r); err != nil {
			return "", "", err
		}
		if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
			return "", "", err
		}
		if err := os.WriteFile(kept, resolved, 0o644); err != nil {
			return "", "", err
		}
	}
	return split(resolved, r.adapt)
}

// build runs ko over copies of the config files, in the module that requires them.
func (c *cluster) build(ctx context.Context, r release) ([]byte, error) {
	folder := c.path("run", "config-"+r.group.folder)
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	module := filepath.Join(c.root, "test", "cluster", r.group.folder)
	for i, config := range r.configs {
		if _, err := output(ctx, module, []string{"GOFLAGS=-mod=readonly"}, "go", "mod", "download", config[0]); err != nil {
			return nil, err
		}
		out, err := output(ctx, module, []string{"GOFLAGS=-mod=readonly"}, "go", "list", "-m", "-f", "{{.Dir}}", config[0])
		if err != nil {
			return nil, err
		}
		from := filepath.Join(strings.TrimSpace(out), config[1])
		if err := copyConfig(from, filepath.Join(folder, fmt.Sprint(i)), r.skip); err != nil {
			return nil, err
		}
	}
	env := []string{
		"KO_DOCKER_REPO=" + registry, "KO_DEFAULTBASEIMAGE=" + registry + "/base:" + imagesVersion, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly",
	}
	out, err := output(ctx, module, env, c.path("bin", "ko"), "resolve", "--platform", "linux/amd64", "--sbom", "none", "-B", "-R", "-f", folder)
	return []byte(out), err
}

func copyConfig(from, to string, skip func(string) bool) error {
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".yaml") || skip(path) {
			return nil
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if relative == "." {
			relative = filepath.Base(path)
		}
		target := filepath.Join(to, relative)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
}

// split reads a stream of objects, adapts each, and parts the definitions of types from the rest.
func split(stream []byte, adapt func(map[string]any) bool) (definitions, rest string, err error) {
	lists := map[bool][]any{}
	for _, document := range bytes.Split(stream, []byte("\n---")) {
		object := map[string]any{}
		if err := yaml.Unmarshal(document, &object); err != nil {
			return "", "", fmt.Errorf("an object of the release is not YAML: %w", err)
		}
		kind, _ := object["kind"].(string)
		switch kind {
		case "", "HorizontalPodAutoscaler", "PodDisruptionBudget":
			continue
		case "Deployment":
			shrink(object)
		}
		if adapt != nil && !adapt(object) {
			continue
		}
		first := kind == "CustomResourceDefinition" || kind == "Namespace"
		lists[first] = append(lists[first], object)
	}
	encode := func(items []any) string {
		data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
		if err != nil {
			return ""
		}
		return string(data)
	}
	return encode(lists[true]), encode(lists[false]), nil
}

// shrink makes a Deployment fit a small node: one replica, and no processor set aside.
func shrink(deployment map[string]any) {
	spec, _ := deployment["spec"].(map[string]any)
	spec["replicas"] = 1
	for _, container := range containers(deployment) {
		if resources, ok := container["resources"].(map[string]any); ok {
			delete(resources, "requests")
		}
	}
}

// containers of a Deployment's pods.
func containers(deployment map[string]any) []map[string]any {
	spec, _ := deployment["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	pod, _ := template["spec"].(map[string]any)
	list, _ := pod["containers"].([]any)
	var out []map[string]any
	for _, item := range list {
		if container, ok := item.(map[string]any); ok {
			out = append(out, container)
		}
	}
	return out
}

// install applies a release.
func (c *cluster) install(ctx context.Context, r release, namespaces ...string) error {
	definitions, rest, err := c.resolve(ctx, r)
	if err != nil {
		return err
	}
	if err := c.apply(ctx, definitions); err != nil {
		return err
	}
	if _, err := c.kubectl(ctx, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"); err != nil {
		return err
	}
	if err := c.apply(ctx, rest); err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if err := c.available(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}
