// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package info says where the parts of the test cluster are: what `make up` writes, and the demo, the end-to-end tests
// and the benchmarks read.
package info

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Info is where things are.
type Info struct {
	// Kubeconfig is the path of an administrator's kubeconfig.
	Kubeconfig string `json:"kubeconfig"`
	// Kubectl is the path of a kubectl that speaks to the cluster.
	Kubectl string `json:"kubectl"`
	// Ko is the path of ko.
	Ko string `json:"ko"`
	// Registry is host:port, as pods and the host name it.
	Registry string `json:"registry"`
	// Ingress is the URL that takes requests from outside the cluster.
	Ingress string `json:"ingress"`
	// Prometheus is its URL.
	Prometheus string `json:"prometheus"`
	// GitDir is the folder of bare repositories that GitURL serves.
	GitDir string `json:"gitDir"`
	GitURL string `json:"gitURL"`
	// BuildKit is the address of buildkitd, for pods.
	BuildKit string `json:"buildkit"`
	// Domain is Knative's.
	Domain string `json:"domain"`
	// AuditLog is the path of the API server's audit log.
	AuditLog string `json:"auditLog"`
}

// FileName is where Write puts it, in the cluster's folder.
const FileName = "cluster.json"

// Load reads what `make up` wrote into the cluster's folder.
func Load(folder string) (Info, error) {
	var info Info
	data, err := os.ReadFile(filepath.Join(folder, FileName))
	if err != nil {
		return info, fmt.Errorf("the test cluster is not up (run `make up`): %w", err)
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return info, fmt.Errorf("%s: %w", FileName, err)
	}
	return info, nil
}

// Write writes it into the cluster's folder.
func (i Info) Write(folder string) error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, FileName), append(data, '\n'), 0o644)
}
