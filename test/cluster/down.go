// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// owner says which checkout has the cluster: there is one a machine.
type owner struct {
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

func (c *cluster) ownerFile() string { return filepath.Join(c.run, "owner.json") }

// take makes this checkout the owner of the machine's one cluster. One that another checkout left behind, with none of
// its processes alive, is cleaned up first.
func (c *cluster) take() error {
	if data, err := os.ReadFile(c.ownerFile()); err == nil {
		var other owner
		if json.Unmarshal(data, &other) == nil && other.State != c.state {
			if slices.ContainsFunc(processesIn(filepath.Join(other.State, "pids")), process.alive) {
				return fmt.Errorf("another checkout has the test cluster: %s, since %s; run `make down` there first", other.State, other.Since.Format(time.RFC3339))
			}
			old := *c
			old.state = other.State
			old.clean(context.Background())
		}
	}
	for _, folder := range []string{"bin", "logs", "pids", "run", "pki", "cni", "git", "kubelet"} {
		if err := os.MkdirAll(c.path(folder), 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.run, 0o755); err != nil {
		return err
	}
	data, err := json.Marshal(owner{State: c.state, Since: time.Now().UTC()})
	if err != nil {
		return err
	}
	return os.WriteFile(c.ownerFile(), data, 0o644)
}

// resetIfBroken starts from nothing where a half-stopped cluster could not be mended: etcd or the API server of before
// are gone, and the pods with them are of no use.
func (c *cluster) resetIfBroken(ctx context.Context) error {
	if len(c.processes()) == 0 || (c.running("etcd") && c.running("kube-apiserver")) {
		return nil
	}
	fmt.Println("A cluster was left half stopped: cleaning up first.")
	if err := c.down(ctx); err != nil {
		return err
	}
	return c.take()
}

// down takes everything down and leaves nothing behind but the logs and the caches.
func (c *cluster) down(ctx context.Context) error {
	c.clean(ctx)
	fmt.Println("The cluster is down.")
	return nil
}

// clean stops the pods first: containerd's shims outlive it.
func (c *cluster) clean(ctx context.Context) {
	procs := c.processes()
	slices.Reverse(procs)
	for _, name := range []string{"kubelet", "kube-controller-manager", "kube-scheduler"} {
		for _, p := range procs {
			if p.Name == name {
				p.stop(5 * time.Second)
			}
		}
	}
	c.killContainers()
	for _, p := range procs {
		p.stop(5 * time.Second)
	}
	c.unmount()
	removeCgroups()
	c.removeNetwork(ctx)
	for _, folder := range []string{"pids", "run", "pki", "cni", "etcd", "containerd", "kubelet", "git", "kubeconfig", "cluster.json"} {
		_ = os.RemoveAll(c.path(folder))
	}
	_ = os.RemoveAll(c.run)
}

// killContainers ends the shims of our containerd, and what runs under them: every process in the node's own cgroup.
func (c *cluster) killContainers() {
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		pids := append(c.shims(), cgroupProcesses()...)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// shims are the processes whose command line names our containerd's socket.
func (c *cluster) shims() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		var pid int
		if _, err := fmt.Sscanf(entry.Name(), "%d", &pid); err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err == nil && strings.Contains(string(line), "containerd-shim") && strings.Contains(string(line), c.containerdSocket()) && startTime(pid) != "" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cgroupFolders are those of the kubelet's root cgroup, in every hierarchy, the deepest first.
func cgroupFolders() []string {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/sluice")
	if err != nil {
		return nil
	}
	roots = append(roots, "/sys/fs/cgroup/sluice")
	var all []string
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				all = append(all, path)
			}
			return nil
		})
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return all
}

func cgroupProcesses() []int {
	var pids []int
	for _, folder := range cgroupFolders() {
		data, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, line := range strings.Fields(string(data)) {
			var pid int
			if _, err := fmt.Sscanf(line, "%d", &pid); err == nil && pid > 1 && startTime(pid) != "" && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func removeCgroups() {
	for _, folder := range cgroupFolders() {
		_ = syscall.Rmdir(folder)
	}
}

// unmount takes away every mount under our folders, the deepest first.
func (c *cluster) unmount() {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	var points []string
	for _, line := range strings.Split(string(data), "\n") {
		if fields := strings.Fields(line); len(fields) > 4 &&
			(strings.HasPrefix(fields[4], c.state+"/") || strings.HasPrefix(fields[4], c.run+"/")) {
			points = append(points, fields[4])
		}
	}
	slices.Reverse(points)
	for _, point := range points {
		_ = syscall.Unmount(point, syscall.MNT_DETACH)
	}
}

// makeCgroups makes the kubelet's root cgroup in every hierarchy; cpuset's begins without processors.
func makeCgroups() error {
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		return err
	}
	if len(hierarchies) == 0 || fileExists("/sys/fs/cgroup/cgroup.controllers") {
		return os.MkdirAll("/sys/fs/cgroup/sluice", 0o755)
	}
	for _, file := range hierarchies {
		parent := filepath.Dir(file)
		folder := filepath.Join(parent, "sluice")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for _, setting := range []string{"cpuset.cpus", "cpuset.mems"} {
			if data, err := os.ReadFile(filepath.Join(parent, setting)); err == nil {
				if err := os.WriteFile(filepath.Join(folder, setting), data, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
