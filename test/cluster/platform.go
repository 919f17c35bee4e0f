// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// installKnative installs Knative Serving.
func (c *cluster) installKnative(ctx context.Context) error {
	settings := map[string]map[string]any{
		"config-network":       {"ingress-class": "traefik.ingress.networking.knative.dev"},
		"config-domain":        {domain: ""},
		"config-observability": {"request-metrics-protocol": "prometheus"},
	}
	knative := release{
		group: group{folder: "knative"},
		configs: [][2]string{
			{"knative.dev/serving", "config/core"}, {"knative.dev/networking", "config"}, {"knative.dev/caching", "config"},
		},
		skip: func(path string) bool { return strings.HasSuffix(path, "-hpa.yaml") },
		adapt: func(object map[string]any) bool {
			metadata, _ := object["metadata"].(map[string]any)
			name, _ := metadata["name"].(string)
			if object["kind"] == "ConfigMap" && settings[name] != nil {
				data, ok := object["data"].(map[string]any)
				if !ok {
					data = map[string]any{}
					object["data"] = data
				}
				for key, value := range settings[name] {
					data[key] = value
				}
			}
			return true
		},
	}
	return c.install(ctx, knative, "knative-serving")
}

// installTekton installs Tekton Pipelines, without resolvers and events.
func (c *cluster) installTekton(ctx context.Context) error {
	tekton := release{
		group:   group{folder: "tekton"},
		configs: [][2]string{{"github.com/tektoncd/pipeline", "config"}},
		skip: func(path string) bool {
			return strings.Contains(path, "/resolvers/") || slices.Contains([]string{"events.yaml", "webhook-hpa.yaml"}, filepath.Base(path))
		},
		adapt: func(object map[string]any) bool {
			if object["kind"] != "Deployment" {
				return true
			}
			for _, container := range containers(object) {
				args, _ := container["args"].([]any)
				for i := range args {
					if args[i] == "-shell-image" && i+1 < len(args) {
						args[i+1] = registry + "/busybox:" + imagesVersion
					}
				}
			}
			return true
		},
	}
	return c.install(ctx, tekton, "tekton-pipelines")
}

// startIngress starts Traefik in the node's namespace, and tells Knative where it is.
func (c *cluster) startIngress(ctx context.Context) error {
	if err := c.buildGroup(ingressGroup)(ctx); err != nil {
		return err
	}
	token, err := os.ReadFile(c.path("pki", "token"))
	if err != nil {
		return err
	}
	config := c.path("run", "traefik.yaml")
	if err := os.WriteFile(config, []byte(fmt.Sprintf(`log: {level: INFO}
entryPoints:
  web: {address: "%[1]s:8080"}
  internal: {address: "%[1]s:8081"}
experimental: {knative: true}
providers:
  knative:
    endpoint: https://%[1]s:6443
    token: %[2]s
    certAuthFilePath: %[3]s
    throttleDuration: 100ms
    publicEntrypoints: [web]
    privateEntrypoints: [internal]
    publicService: {name: traefik, namespace: knative-serving}
    privateService: {name: traefik-internal, namespace: knative-serving}
`, nodeAddress, token, c.path("pki", "ca.crt"))), 0o600); err != nil {
		return err
	}
	if err := c.apply(ctx, entryPoint("traefik", 8080)+entryPoint("traefik-internal", 8081)); err != nil {
		return err
	}
	return c.start("traefik", c.path("bin", "traefik"), "--configFile="+config)
}

// entryPoint is a Service whose only endpoint is the node.
func entryPoint(name string, port int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: knative-serving}
spec: {ports: [{name: http, port: 80, targetPort: %[2]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, namespace: knative-serving, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: %[2]d, protocol: TCP}]
endpoints: [{addresses: [%[3]q], conditions: {ready: true}}]
---
`, name, port, nodeAddress)
}

// startPrometheus starts Prometheus, which finds the pods of revisions by the API.
func (c *cluster) startPrometheus(ctx context.Context) error {
	if err := c.buildGroup(prometheusGroup)(ctx); err != nil {
		return err
	}
	config := c.path("run", "prometheus.yaml")
	if err := os.WriteFile(config, []byte(fmt.Sprintf(`global: {scrape_interval: 5s}
scrape_configs:
- job_name: queue-proxy
  kubernetes_sd_configs:
  - {role: pod, kubeconfig_file: %q}
  relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_container_name], regex: queue-proxy, action: keep}
  - {source_labels: [__meta_kubernetes_pod_container_port_name], regex: http-usermetric, action: keep}
  - {source_labels: [__meta_kubernetes_pod_label_serving_knative_dev_revision], target_label: revision}
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
  - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
`, c.kubeconfig())), 0o644); err != nil {
		return err
	}
	return c.start("prometheus", c.path("bin", "prometheus"), "--config.file="+config, "--storage.tsdb.path="+c.path("run", "prometheus"),
		"--web.listen-address="+nodeAddress+":9090", "--log.level=warn")
}

// installBuildKit runs buildkitd in the cluster.
func (c *cluster) installBuildKit(ctx context.Context) error {
	if err := c.buildGroup(buildkitGroup)(ctx); err != nil {
		return err
	}
	if err := c.pushImage(ctx, "buildkit:"+imagesVersion, func(l *layer) {
		l.people()
		l.shell(ctx)
		l.copyProgram(ctx, "/usr/bin/runc", "/usr/sbin/runc")
		l.copyFile("/usr/bin/buildkitd", c.path("bin", "buildkitd"))
		l.copyFile("/usr/bin/buildctl", c.path("bin", "buildctl"))
	}, imageSpec{Env: []string{"PATH=/usr/bin:/bin", "HOME=/tmp"}}); err != nil {
		return err
	}
	if err := c.apply(ctx, fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: sluice-build}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: buildkitd, namespace: sluice-build}
data:
  buildkitd.toml: |
    [registry."%[1]s"]
      http = true
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: buildkitd, namespace: sluice-build}
spec:
  selector: {matchLabels: {app: buildkitd}}
  template:
    metadata: {labels: {app: buildkitd}}
    spec:
      containers:
      - name: buildkitd
        image: %[1]s/buildkit:%[2]s
        command: [/usr/bin/buildkitd, --addr, "tcp://0.0.0.0:1234", --config, /etc/buildkit/buildkitd.toml, --root, /var/lib/buildkit]
        securityContext: {privileged: true}
        readinessProbe: {tcpSocket: {port: 1234}, periodSeconds: 2}
        volumeMounts:
        - {name: state, mountPath: /var/lib/buildkit}
        - {name: config, mountPath: /etc/buildkit}
      volumes:
      - {name: state, emptyDir: {}}
      - {name: config, configMap: {name: buildkitd}}
---
apiVersion: v1
kind: Service
metadata: {name: buildkitd, namespace: sluice-build}
spec: {selector: {app: buildkitd}, ports: [{port: 1234}]}
`, registry, imagesVersion)); err != nil {
		return err
	}
	return c.available(ctx, "sluice-build")
}

// startGit serves the bare repositories under .cluster/git to the pods.
func (c *cluster) startGit(context.Context) error {
	return c.start("git", "git", "-c", "safe.directory=*", "daemon", "--reuseaddr", "--export-all", "--base-path="+c.path("git"),
		"--listen="+nodeAddress, "--port=9418", c.path("git"))
}
