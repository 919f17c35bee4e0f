// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// group is one Go module of foreign programs, in a folder of its own, pinned by its go.sum.
type group struct {
	folder string
	// pattern is what is built: "." for a main of the module's own, "tool" for its tool directives.
	pattern string
	tags    string
	ldflags string
	// links are the names under which the programs go into .cluster/bin.
	links []string
}

var (
	kubernetesGroup = group{folder: "kubernetes", pattern: ".", links: []string{"kubernetes"}, ldflags: "-s -w" +
		" -X k8s.io/component-base/version.gitVersion=" + kubeVersion +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"}
	imagesGroup     = group{folder: "images", pattern: ". tool", ldflags: "-s -w", links: []string{"images", "ko"}}
	dnsGroup        = group{folder: "dns", pattern: ".", ldflags: "-s -w", links: []string{"dns"}}
	ingressGroup    = group{folder: "ingress", pattern: "tool", ldflags: "-s -w", links: []string{"traefik"}}
	prometheusGroup = group{folder: "prometheus", pattern: "tool", tags: "remove_all_sd,enable_kubernetes_sd", ldflags: "-s -w", links: []string{"prometheus"}}
	buildkitGroup   = group{folder: "buildkit", pattern: "tool", ldflags: "-s -w", links: []string{"buildkitd", "buildctl"}}
)

// key changes with everything that the programs are built from.
func (g group) key(root string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), g.pattern, g.tags, g.ldflags)
	files, err := filepath.Glob(filepath.Join(root, "test", "cluster", g.folder, "*"))
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", filepath.Base(file), len(data))
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// buildGroup builds a group into the cache, if it is not there, and links its programs into .cluster/bin.
func (c *cluster) buildGroup(g group) func(context.Context) error {
	return func(ctx context.Context) error {
		key, err := g.key(c.root)
		if err != nil {
			return err
		}
		built := filepath.Join(c.cache, "bin", g.folder+"-"+key)
		if _, err := os.Stat(built); err != nil {
			if err := c.compile(ctx, g, built); err != nil {
				return err
			}
		}
		for _, name := range g.links {
			link := c.path("bin", name)
			_ = os.Remove(link)
			if err := os.Symlink(filepath.Join(built, name), link); err != nil {
				return err
			}
		}
		if g.folder == kubernetesGroup.folder {
			return os.WriteFile(c.path("bin", "kubectl"), []byte("#!/bin/sh\nexec "+filepath.Join(built, "kubernetes")+" kubectl \"$@\"\n"), 0o755)
		}
		return nil
	}
}

// compile builds into a folder beside the final one, and renames: half a build is never taken for a whole one.
func (c *cluster) compile(ctx context.Context, g group, built string) error {
	partial := built + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return err
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", g.ldflags, "-o", partial + "/"}
	if g.tags != "" {
		args = append(args, "-tags", g.tags)
	}
	args = append(args, strings.Fields(g.pattern)...)
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = filepath.Join(c.root, "test", "cluster", g.folder)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	log, err := os.Create(c.path("logs", "build-"+g.folder+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	if err := command.Run(); err != nil {
		data, _ := os.ReadFile(log.Name())
		return fmt.Errorf("go build: %w\n%s", err, lastLines(string(data), 15))
	}
	return os.Rename(partial, built)
}
