// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Command cluster brings up a real Kubernetes cluster with Knative and Tekton on one Linux machine, without Docker, and
// takes it down again. Everything runs in a network namespace of its own.
//
//	go run ./test/cluster up | down | status
//
// With KUBECONFIG set to a cluster that has Knative and Tekton, up only makes sure of that.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/cluster up | down | status")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "\n"+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, command string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(root, "test", "cluster", "main.go")); err != nil {
		return errors.New("run this in the repository's top folder")
	}
	if external := os.Getenv("KUBECONFIG"); external != "" && external != filepath.Join(root, ".cluster", "kubeconfig") {
		return checkExternal(ctx, command, external)
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return errors.New("the test cluster needs Linux and root; elsewhere set KUBECONFIG to any cluster that has Knative and Tekton")
	}
	c := newCluster(root)
	switch command {
	case "up":
		return c.up(ctx)
	case "down":
		return c.down(ctx)
	case "status":
		return c.status()
	default:
		return fmt.Errorf("there is no command %q, only up, down and status", command)
	}
}
