// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// imageSpec is what the program images takes.
type imageSpec struct {
	Layers     []string `json:"layers"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Env        []string `json:"env,omitempty"`
	User       string   `json:"user,omitempty"`
	Workdir    string   `json:"workdir,omitempty"`
}

// version of the base images: raise it when what goes into one changes.
const imagesVersion = "1"

// pushImage makes an image of one layer, unless the registry has it already.
func (c *cluster) pushImage(ctx context.Context, name string, fill func(*layer), spec imageSpec) error {
	if c.registryHas(ctx, name) {
		return nil
	}
	file := c.path("run", strings.ReplaceAll(name, ":", "-")+".tar")
	defer os.Remove(file)
	made := newLayer(file)
	fill(made)
	if err := made.close(); err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	spec.Layers = []string{file}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, c.path("bin", "images"), "push", registry+"/"+name)
	command.Stdin = strings.NewReader(string(data))
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("image %s: %w\n%s", name, err, out)
	}
	return nil
}

// registryHas asks the registry; it answers as soon as it is up.
func (c *cluster) registryHas(ctx context.Context, name string) bool {
	repository, tag, _ := strings.Cut(name, ":")
	found := false
	_ = until(ctx, 10*time.Second, "the registry", func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+registry+"/v2/"+repository+"/manifests/"+tag, nil)
		if err != nil {
			return err
		}
		client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		answer.Body.Close()
		found = answer.StatusCode == http.StatusOK
		return nil
	})
	return found
}

func (c *cluster) pushPause(ctx context.Context) error {
	program := c.path("run", "pause")
	if _, err := output(ctx, c.root, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./test/cluster/pause"); err != nil {
		return err
	}
	return c.pushImage(ctx, "pause:1", func(l *layer) { l.copyFile("/pause", program) }, imageSpec{Entrypoint: []string{"/pause"}})
}

// pushBaseImages makes the images that others are built on, out of what the machine has.
func (c *cluster) pushBaseImages(ctx context.Context) error {
	images := []struct {
		name string
		fill func(*layer)
		spec imageSpec
	}{
		{"base:" + imagesVersion, func(l *layer) { l.people() }, imageSpec{User: "65532"}},
		{"busybox:" + imagesVersion, func(l *layer) { l.people(); l.shell(ctx) }, imageSpec{Env: []string{"PATH=/bin"}}},
		{"git:" + imagesVersion, func(l *layer) { c.fillGit(ctx, l) }, imageSpec{Env: []string{"PATH=/usr/bin:/bin", "HOME=/tmp"}}},
		{"client:" + imagesVersion, func(l *layer) {
			l.people()
			l.shell(ctx)
			l.copyFile("/usr/local/bin/kubernetes", c.path("bin", "kubernetes"))
			l.text("/usr/local/bin/kubectl", "#!/bin/sh\nexec /usr/local/bin/kubernetes kubectl \"$@\"\n", 0o755)
		}, imageSpec{Env: []string{"PATH=/usr/local/bin:/bin", "HOME=/tmp"}}},
		{"golang:" + imagesVersion, func(l *layer) { c.fillGolang(ctx, l) }, imageSpec{
			Env: []string{"PATH=/usr/local/go/bin:/bin", "GOROOT=/usr/local/go", "GOCACHE=/cache", "GOPATH=/gopath", "GOTOOLCHAIN=local",
				"GOPROXY=off", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0", "HOME=/root"},
		}},
	}
	for _, image := range images {
		if err := c.pushImage(ctx, image.name, image.fill, image.spec); err != nil {
			return err
		}
	}
	return nil
}

// fillGit is git as the machine has it, able to clone.
func (c *cluster) fillGit(ctx context.Context, l *layer) {
	l.people()
	l.shell(ctx)
	l.copyProgram(ctx, "/usr/bin/git", "/usr/bin/git")
	l.link("/usr/lib/git-core/git", "/usr/bin/git")
	for _, helper := range []string{"git-remote-http", "git-remote-https"} {
		l.copyProgram(ctx, "/usr/lib/git-core/"+helper, "/usr/lib/git-core/"+helper)
	}
	l.folder("usr/share/git-core/templates", 0o755)
	l.text("/etc/gitconfig", "[safe]\n\tdirectory = *\n", 0o644)
}

// fillGolang is the Go toolchain of the machine, able to build a small HTTP service without a network, and with the
// standard library compiled already.
func (c *cluster) fillGolang(ctx context.Context, l *layer) {
	root := strings.TrimSpace(runtime.GOROOT()) //nolint:staticcheck // The toolchain that runs this.
	if out, err := output(ctx, "/", nil, "go", "env", "GOROOT"); err == nil {
		root = strings.TrimSpace(out)
	}
	cache, module := c.path("run", "gocache"), c.path("run", "warm")
	defer os.RemoveAll(cache)
	defer os.RemoveAll(module)
	if err := errors.Join(os.MkdirAll(module, 0o755),
		os.WriteFile(filepath.Join(module, "go.mod"), []byte("module warm\n"), 0o644),
		os.WriteFile(filepath.Join(module, "main.go"), []byte("package main\n\nimport (\n\t\"fmt\"\n\t\"log\"\n\t\"math/rand/v2\"\n\t\"net/http\"\n\t\"os\"\n\t\"os/signal\"\n\t\"strconv\"\n\t\"syscall\"\n\t\"time\"\n\t\"context\"\n)\n\nfunc main() {\n\tfmt.Println(rand.IntN(2), os.Args, strconv.Itoa(1), time.Now(), syscall.SIGTERM)\n\tctx, stop := signal.NotifyContext(context.Background())\n\tdefer stop()\n\t_ = ctx\n\tlog.Fatal(http.ListenAndServe(\"\", nil))\n}\n"), 0o644)); err != nil {
		l.err = err
		return
	}
	env := []string{"GOCACHE=" + cache, "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOTOOLCHAIN=local", "GOWORK=off"}
	if _, err := output(ctx, module, env, "go", "build", "-o", "/dev/null", "."); err != nil {
		l.err = err
		return
	}
	l.people()
	l.shell(ctx)
	l.copyFile("/usr/local/go/bin/go", filepath.Join(root, "bin", "go"))
	for _, file := range []string{"VERSION", "go.env"} {
		l.copyFile("/usr/local/go/"+file, filepath.Join(root, file))
	}
	tools := filepath.Join("pkg", "tool", "linux_amd64")
	for _, tool := range []string{"compile", "link", "asm"} {
		l.copyFile(filepath.Join("/usr/local/go", tools, tool), filepath.Join(root, tools, tool))
	}
	l.copyTree("/usr/local/go/pkg/include", filepath.Join(root, "pkg", "include"), func(string) bool { return false })
	l.copyTree("/usr/local/go/src", filepath.Join(root, "src"), func(path string) bool {
		return strings.HasPrefix(path, "cmd") || strings.Contains(path, "testdata") || strings.HasSuffix(path, "_test.go")
	})
	l.copyTree("/cache", cache, func(string) bool { return false })
}
