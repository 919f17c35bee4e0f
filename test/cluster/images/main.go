// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Command images is the test cluster's registry, which keeps what it is given on disk, and the means to put images made
// of tar files into one.
//
//	images serve ADDRESS DIRECTORY
//	images push REFERENCE < SPEC
//
// SPEC is JSON: {"layers": ["a.tar"], "entrypoint": [], "env": [], "user": "", "workdir": ""}.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "serve":
		err = serve(os.Args[2], os.Args[3])
	case len(os.Args) == 3 && os.Args[1] == "push":
		err = push(os.Args[2], os.Stdin)
	default:
		err = fmt.Errorf("usage: images serve ADDRESS DIRECTORY | images push REFERENCE < SPEC")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// manifest is one PUT of a manifest, as kept on disk.
type manifest struct {
	Path        string `json:"path"`
	ContentType string `json:"contentType"`
	Body        []byte `json:"body"`
}

// serve runs the registry. The library keeps blobs on disk and manifests in memory, so each manifest is kept here, and
// put again at the start.
func serve(address, directory string) error {
	blobs, manifests := filepath.Join(directory, "blobs"), filepath.Join(directory, "manifests")
	for _, folder := range []string{blobs, manifests} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	quiet := log.New(io.Discard, "", 0)
	inner := registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs)), registry.Logger(quiet))
	if err := replay(inner, manifests); err != nil {
		return err
	}
	server := &http.Server{Addr: address, Handler: keep(inner, manifests), ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

func replay(inner http.Handler, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return err
	}
	for pass := 0; pass < 2; pass++ { // An index needs its images, which may come later in the alphabet.
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			var kept manifest
			if err := json.Unmarshal(data, &kept); err != nil {
				continue // Half written when the machine went down: whoever needs the image puts it again.
			}
			request := httptest.NewRequest(http.MethodPut, kept.Path, bytes.NewReader(kept.Body))
			request.Header.Set("Content-Type", kept.ContentType)
			inner.ServeHTTP(httptest.NewRecorder(), request)
		}
	}
	return nil
}

func keep(inner http.Handler, folder string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
			inner.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<20))
		if err != nil {
			http.Error(w, "the manifest is too large", http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		inner.ServeHTTP(w, r)
		data, err := json.Marshal(manifest{Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), Body: body})
		if err != nil {
			return
		}
		sum := sha256.Sum256([]byte(r.URL.Path))
		file := filepath.Join(folder, hex.EncodeToString(sum[:])+".json")
		if err := os.WriteFile(file+".new", data, 0o644); err == nil {
			_ = os.Rename(file+".new", file)
		}
	})
}

// spec is an image made of tar files.
type spec struct {
	Layers     []string `json:"layers"`
	Entrypoint []string `json:"entrypoint"`
	Env        []string `json:"env"`
	User       string   `json:"user"`
	Workdir    string   `json:"workdir"`
}

func push(reference string, input io.Reader) error {
	var wanted spec
	if err := json.NewDecoder(input).Decode(&wanted); err != nil {
		return fmt.Errorf("the spec is not JSON: %w", err)
	}
	tag, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		return err
	}
	image := empty.Image
	for _, file := range wanted.Layers {
		layer, err := tarball.LayerFromFile(file, tarball.WithCompressionLevel(1))
		if err != nil {
			return err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Config = v1.Config{Entrypoint: wanted.Entrypoint, Env: wanted.Env, User: wanted.User, WorkingDir: wanted.Workdir}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	return remote.Write(tag, image)
}
