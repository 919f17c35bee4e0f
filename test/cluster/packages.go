// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"strings"
)

// debian names the packages that each needed file comes with.
var debian = map[string]string{
	"/usr/bin/containerd":                "containerd",
	"/usr/sbin/runc":                     "runc",
	"/usr/lib/cni/bridge":                "containernetworking-plugins",
	"/usr/sbin/iptables":                 "iptables",
	"/usr/sbin/conntrack":                "conntrack",
	"/usr/bin/busybox":                   "busybox-static",
	"/usr/bin/nsenter":                   "util-linux",
	"/usr/sbin/ip":                       "iproute2",
	"/usr/sbin/sysctl":                   "procps",
	"/usr/lib/git-core/git":              "git",
	"/etc/ssl/certs/ca-certificates.crt": "ca-certificates",
}

// installPackages installs what is missing. On another Linux it says what it needs.
func (c *cluster) installPackages(ctx context.Context) error {
	var missing []string
	for file, name := range debian {
		if !fileExists(file) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if !fileExists("/usr/bin/apt-get") {
		return errors.New("these are missing, by their Debian names: " + strings.Join(missing, ", "))
	}
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	if _, err := output(ctx, "/", env, "apt-get", "update", "-qq"); err != nil {
		return err
	}
	// A service that Debian starts by itself would be another containerd beside ours.
	policy := "/usr/sbin/policy-rc.d"
	if !fileExists(policy) {
		if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
			return err
		}
		defer os.Remove(policy)
	}
	_, err := output(ctx, "/", env, "apt-get", append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)...)
	return err
}
