// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// makeNetwork makes the namespace that the node lives in, so that nothing can leave the machine and the host's own
// routes and rules stay as they are. A veth pair joins the two; there is no default route. The Service addresses are
// routed to an empty bridge, so that processes of the node itself, such as the API server, reach them too.
func (c *cluster) makeNetwork(ctx context.Context) error {
	if _, err := os.Stat("/run/netns/" + namespace); err == nil {
		return nil
	}
	inside := "nsenter --net=/run/netns/" + namespace + " "
	for _, line := range []string{
		"ip netns add " + namespace,
		"ip link add " + hostLink + " type veth peer name " + nodeLink + " netns " + namespace,
		"ip addr add " + hostAddress + "/30 dev " + hostLink,
		"ip link set " + hostLink + " up",
		inside + "ip link set lo up",
		inside + "ip addr add " + nodeAddress + "/30 dev " + nodeLink,
		inside + "ip link set " + nodeLink + " up",
		inside + "ip link add k8s0 type bridge",
		inside + "ip link set k8s0 up",
		inside + "ip addr add " + dnsService + "/32 dev k8s0",
		inside + "ip route add " + serviceCIDR + " dev k8s0",
		inside + "sysctl -qw net.ipv4.ip_forward=1",
	} {
		words := strings.Fields(line)
		if _, err := output(ctx, "/", nil, words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// removeNetwork deletes the namespace, and with it everything in it.
func (c *cluster) removeNetwork(ctx context.Context) {
	_, _ = output(ctx, "/", nil, "ip", "link", "delete", hostLink)
	_, _ = output(ctx, "/", nil, "ip", "netns", "delete", namespace)
}

// cniConfig joins pods to a bridge in the namespace.
func cniConfig() string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":"pods","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,
  "ipam":{"type":"host-local","ranges":[[{"subnet":%q}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}},{"type":"loopback"}]}
`, nodePodCIDR)
}
