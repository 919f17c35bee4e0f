// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// auditPolicy records who wrote what, for tests that count writes; not who read, and not what beats like a heart.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: None, resources: [{group: coordination.k8s.io}, {group: "", resources: [events]}, {group: events.k8s.io}, {group: authorization.k8s.io}, {group: authentication.k8s.io}]}
- {level: Metadata}
`

// part starts one part of Kubernetes.
func (c *cluster) part(name string, args ...string) error {
	return c.start(name, c.path("bin", "kubernetes"), append([]string{name}, args...)...)
}

// startControlPlane starts etcd, the API server, the controllers and the scheduler.
func (c *cluster) startControlPlane(ctx context.Context) error {
	if err := c.makePKI(); err != nil {
		return err
	}
	policy := c.path("run", "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o644); err != nil {
		return err
	}
	if err := c.start("registry", c.path("bin", "images"), "serve", registry, filepath.Join(c.cache, "registry")); err != nil {
		return err
	}
	if err := c.part("etcd", "--data-dir", c.path("etcd"), "--listen-client-urls", "http://127.0.0.1:2379",
		"--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380", "--unsafe-no-fsync"); err != nil {
		return err
	}
	pki := func(name string) string { return c.path("pki", name) }
	if err := c.part("kube-apiserver", "--etcd-servers", "http://127.0.0.1:2379",
		"--bind-address", nodeAddress, "--advertise-address", nodeAddress, "--secure-port", "6443",
		"--tls-cert-file", pki("api.crt"), "--tls-private-key-file", pki("api.key"), "--client-ca-file", pki("ca.crt"),
		"--token-auth-file", pki("tokens.csv"), "--authorization-mode", "Node,RBAC",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", pki("sa.key"), "--service-account-signing-key-file", pki("sa.key"),
		"--service-cluster-ip-range", serviceCIDR, "--allow-privileged=true", "--endpoint-reconciler-type=master-count",
		"--kubelet-preferred-address-types=InternalIP", "--audit-policy-file", policy, "--audit-log-path", c.path("logs", "audit.log"), "--audit-log-maxsize", "200"); err != nil {
		return err
	}
	if err := until(ctx, time.Minute, "the API server", func() error {
		_, err := c.kubectl(ctx, "", "get", "--raw", "/readyz")
		return err
	}); err != nil {
		return err
	}
	if err := c.part("kube-controller-manager", "--kubeconfig", c.kubeconfig(), "--service-account-private-key-file", pki("sa.key"),
		"--root-ca-file", pki("ca.crt"), "--leader-elect=false", "--cluster-cidr", podCIDR, "--allocate-node-cidrs=true"); err != nil {
		return err
	}
	return c.part("kube-scheduler", "--kubeconfig", c.kubeconfig(), "--leader-elect=false")
}

// startNode starts containerd, the kubelet and the proxy.
func (c *cluster) startNode(ctx context.Context) error {
	files := map[string]string{
		c.path("cni", "10-pods.conflist"): cniConfig(),
		c.path("run", "containerd.toml"):  c.containerdConfig(),
		c.path("run", "kubelet.yaml"):     c.kubeletConfig(),
		c.path("run", "proxy.yaml"):       c.proxyConfig(),
	}
	for file, text := range files {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := makeCgroups(); err != nil {
		return err
	}
	if err := c.pushPause(ctx); err != nil {
		return err
	}
	if err := c.start("containerd", "containerd", "--config", c.path("run", "containerd.toml")); err != nil {
		return err
	}
	if err := until(ctx, time.Minute, "containerd", func() error {
		_, err := os.Stat(c.containerdSocket())
		return err
	}); err != nil {
		return err
	}
	if err := c.part("kubelet", "--kubeconfig", c.kubeconfig(), "--config", c.path("run", "kubelet.yaml"), "--root-dir", c.path("kubelet"),
		"--cert-dir", c.path("run", "kubelet-pki"), "--hostname-override", nodeName, "--node-ip", nodeAddress, "--register-node"); err != nil {
		return err
	}
	if err := c.part("kube-proxy", "--config", c.path("run", "proxy.yaml")); err != nil {
		return err
	}
	return until(ctx, 2*time.Minute, "the node", func() error {
		out, err := c.kubectl(ctx, "", "get", "node", nodeName, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && out != "True" {
			return errors.New("it is not ready yet: see kubelet.log")
		}
		return err
	})
}

func (c *cluster) containerdSocket() string { return filepath.Join(c.run, "containerd.sock") }

// containerdConfig: without restrict_oom_score_adj a container cannot start where root may not lower its score.
func (c *cluster) containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "%s/pause:1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".registry.mirrors."%s"]
    endpoint = ["http://%s"]
`, c.path("containerd"), filepath.Join(c.run, "containerd"), c.containerdSocket(), registry, c.path("cni"), registry, registry)
}

func (c *cluster) kubeletConfig() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /sluice
containerRuntimeEndpoint: unix://%s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
clusterDNS: [%q]
clusterDomain: cluster.local
resolvConf: ""
address: %s
evictionHard: {memory.available: "100Mi", nodefs.available: "1%%", imagefs.available: "1%%"}
localStorageCapacityIsolation: false
protectKernelDefaults: false
serializeImagePulls: false
maxPods: 250
`, c.containerdSocket(), dnsService, nodeAddress)
}

func (c *cluster) proxyConfig() string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: %q}
clusterCIDR: %s
hostnameOverride: %s
conntrack: {maxPerCore: 0}
`, c.kubeconfig(), podCIDR, nodeName)
}

// startDNS starts CoreDNS on the cluster's DNS address.
func (c *cluster) startDNS(ctx context.Context) error {
	if err := c.buildGroup(dnsGroup)(ctx); err != nil {
		return err
	}
	corefile := c.path("run", "Corefile")
	text := fmt.Sprintf(".:53 {\n  bind %s\n  errors\n  cache 5\n  kubernetes cluster.local in-addr.arpa {\n    kubeconfig %s\n  }\n}\n", dnsService, c.kubeconfig())
	if err := os.WriteFile(corefile, []byte(text), 0o644); err != nil {
		return err
	}
	return c.start("dns", c.path("bin", "dns"), "-conf", corefile)
}

// kubectl runs kubectl as the administrator, with an input if there is one.
func (c *cluster) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	if input == "" {
		return output(ctx, c.root, []string{"KUBECONFIG=" + c.kubeconfig()}, c.path("bin", "kubectl"), args...)
	}
	file, err := os.CreateTemp(c.path("run"), "apply-*.yaml")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	if _, err := file.WriteString(input); err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	return output(ctx, c.root, []string{"KUBECONFIG=" + c.kubeconfig()}, c.path("bin", "kubectl"), append(args, "-f", file.Name())...)
}

// apply applies objects, again until the webhooks answer.
func (c *cluster) apply(ctx context.Context, objects string) error {
	return until(ctx, 2*time.Minute, "kubectl apply", func() error {
		_, err := c.kubectl(ctx, objects, "apply", "--server-side", "--force-conflicts")
		return err
	})
}

// available waits for all Deployments of a namespace.
func (c *cluster) available(ctx context.Context, namespace string) error {
	_, err := c.kubectl(ctx, "", "-n", namespace, "wait", "--for=condition=Available", "deployment", "--all", "--timeout=180s")
	if err != nil {
		pods, _ := c.kubectl(ctx, "", "-n", namespace, "get", "pods")
		return fmt.Errorf("%w\n%s", err, pods)
	}
	return nil
}

// checkExternal makes sure that a cluster which is not ours has what we need.
func checkExternal(ctx context.Context, command, kubeconfig string) error {
	if command != "up" {
		return errors.New("KUBECONFIG names a cluster that is not this project's: nothing to do for " + command)
	}
	out, err := output(ctx, "/", nil, "kubectl", "--kubeconfig", kubeconfig, "api-versions")
	if err != nil {
		return fmt.Errorf("the cluster of KUBECONFIG does not answer: %w", err)
	}
	for _, group := range []string{"serving.knative.dev/v1", "tekton.dev/v1", "tekton.dev/v1beta1"} {
		if !strings.Contains(out, group) {
			return fmt.Errorf("the cluster of KUBECONFIG has no %s: install Knative Serving and Tekton Pipelines, or unset KUBECONFIG", group)
		}
	}
	fmt.Println("The cluster of KUBECONFIG has Knative and Tekton.")
	return nil
}
