// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one that the cluster started, as recorded on disk. The start time tells a process from another one that
// was given its number later.
type process struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started string `json:"started"`
}

// startTime is when a process began, in the kernel's ticks; empty if there is none. A zombie counts as none.
func startTime(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

func (p process) alive() bool { return p.PID > 0 && p.Started != "" && startTime(p.PID) == p.Started }

// stop ends the process: first kindly.
func (p process) stop(grace time.Duration) {
	if !p.alive() {
		return
	}
	_ = syscall.Kill(p.PID, syscall.SIGTERM)
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !p.alive() {
			return
		}
	}
	if p.alive() {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
	for end := time.Now().Add(grace); p.alive() && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		continue
	}
}

// processes are those recorded, oldest first.
func (c *cluster) processes() []process {
	return processesIn(c.path("pids"))
}

func processesIn(folder string) []process {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil
	}
	var all []process
	for _, file := range files {
		var p process
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &p) == nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b process) int {
		left, _ := strconv.Atoi(a.Started)
		right, _ := strconv.Atoi(b.Started)
		return left - right
	})
	return all
}

func (c *cluster) running(name string) bool {
	for _, p := range c.processes() {
		if p.Name == name {
			return p.alive()
		}
	}
	return false
}

// start runs a program in the cluster's network namespace, detached, with its output in a log; nothing if it runs
// already. nsenter, unlike ip netns exec, leaves /sys as it is.
func (c *cluster) start(name, program string, args ...string) error {
	if c.running(name) {
		return nil
	}
	log, err := os.OpenFile(c.path("logs", name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command("nsenter", append([]string{"--net=/run/netns/" + namespace, program}, args...)...)
	command.Stdout, command.Stderr, command.Dir = log, log, c.state
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", name, err)
	}
	record := process{Name: name, PID: command.Process.Pid, Started: startTime(command.Process.Pid)}
	go func() { _ = command.Wait() }()
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return os.WriteFile(c.path("pids", name+".json"), data, 0o644)
}

// output runs a program on the host and returns what it prints. What it prints when it fails is in the error.
func output(ctx context.Context, folder string, env []string, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = folder, append(os.Environ(), env...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, lastLines(problems.String()+out.String(), 15))
	}
	return out.String(), nil
}

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// until tries again until it works, or the time is up.
func until(ctx context.Context, limit time.Duration, what string, try func() error) error {
	end := time.Now().Add(limit)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: not within %s: %w", what, limit, err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
