// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-dev/sluice/test/cluster/info"
)

// Addresses of the cluster. All of them are in the namespace that the cluster makes, or on the one link into it.
const (
	namespace   = "sluice"
	hostLink    = "sl-host"
	nodeLink    = "sl-node"
	hostAddress = "10.200.0.2"
	nodeAddress = "10.200.0.1"
	podCIDR     = "10.244.0.0/16"
	nodePodCIDR = "10.244.0.0/24"
	serviceCIDR = "10.96.0.0/16"
	apiService  = "10.96.0.1"
	dnsService  = "10.96.0.10"
	registry    = nodeAddress + ":5000"
	domain      = "example.test"
	nodeName    = "node0"
	kubeVersion = "v1.36.3"
)

// cluster is the one cluster of this checkout.
type cluster struct {
	root  string // the repository
	state string // what is gone with the cluster
	cache string // what the next cluster of any checkout uses again
	run   string // sockets: a path to one may have 107 characters at most
	show  *progress
}

func newCluster(root string) *cluster {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = os.TempDir()
		}
		cache = filepath.Join(home, ".cache")
	}
	return &cluster{
		root: root, state: filepath.Join(root, ".cluster"), cache: filepath.Join(cache, "sluice"), run: "/run/sluice",
		show: newProgress(os.Stdout),
	}
}

func (c *cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.state}, parts...)...)
}
func (c *cluster) kubeconfig() string { return c.path("kubeconfig") }

// up brings the cluster up, or what is missing of it.
func (c *cluster) up(ctx context.Context) error {
	if err := c.take(); err != nil {
		return err
	}
	if err := c.resetIfBroken(ctx); err != nil {
		return err
	}
	stages := []stage{
		{"debian packages", "containerd, runc, CNI plugins, iptables, busybox", c.installPackages},
		{"kubernetes", "built from source, 8 to 12 min the first time on 2 cores", c.buildGroup(kubernetesGroup)},
		{"registry and images", "built from source, 1 min the first time", c.buildGroup(imagesGroup)},
		{"network", "a namespace of its own", c.makeNetwork},
		{"control plane", "etcd, API server, controllers, scheduler", c.startControlPlane},
		{"node", "containerd, kubelet, kube-proxy", c.startNode},
		{"dns", "built from source, 1 min the first time", c.startDNS},
		{"base images", "pause, base, busybox, git, golang, client", c.pushBaseImages},
		{"knative", "built from source, 3 min the first time", c.installKnative},
		{"tekton", "built from source, 2 min the first time", c.installTekton},
		{"ingress", "Traefik, built from source, 2 min the first time", c.startIngress},
		{"prometheus", "built from source, 2 min the first time", c.startPrometheus},
		{"builder", "BuildKit, built from source, 2 min the first time", c.installBuildKit},
		{"git server", "git daemon", c.startGit},
	}
	started := time.Now()
	for i, stage := range stages {
		if err := c.show.do(i+1, len(stages), stage.name, stage.hint, func() error { return stage.do(ctx) }); err != nil {
			return fmt.Errorf("%s: %w\nThe logs are in %s. Mend it and run `make up` again, or `make down` first to start from nothing", stage.name, err, c.path("logs"))
		}
	}
	if err := c.writeInfo(); err != nil {
		return err
	}
	fmt.Printf("\nThe cluster is up after %s. To look around:\n  export KUBECONFIG=%s PATH=%s:$PATH\n  kubectl get ksvc,pipelineruns -A\nIts ingress is http://%s:8080; `make down` takes it down.\n",
		time.Since(started).Round(time.Second), c.kubeconfig(), c.path("bin"), nodeAddress)
	return nil
}

type stage struct {
	name, hint string
	do         func(context.Context) error
}

func (c *cluster) writeInfo() error {
	return info.Info{
		Kubeconfig: c.kubeconfig(), Kubectl: c.path("bin", "kubectl"), Ko: c.path("bin", "ko"),
		Registry: registry, Ingress: "http://" + nodeAddress + ":8080", Prometheus: "http://" + nodeAddress + ":9090",
		GitDir: c.path("git"), GitURL: "git://" + nodeAddress, BuildKit: "tcp://buildkitd.sluice-build.svc.cluster.local:1234",
		Domain: domain, AuditLog: c.path("logs", "audit.log"),
	}.Write(c.state)
}

func (c *cluster) status() error {
	procs := c.processes()
	if len(procs) == 0 {
		fmt.Println("The cluster is not up: `make up`")
		return nil
	}
	for _, proc := range procs {
		state := "running"
		if !proc.alive() {
			state = "dead: `make up` starts it again"
		}
		fmt.Printf("%-24s pid %-8d %s\n", proc.Name, proc.PID, state)
	}
	return nil
}
