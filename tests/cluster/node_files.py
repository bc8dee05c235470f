"""The settings files of a one-node Kubernetes in a network namespace.

What is said with a reason was found the hard way on machines without CAP_SYS_RESOURCE and with
control groups v1, as small virtual machines and containers have them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.images import PAUSE

NODE = "node-1"
NODE_ADDRESS = "10.90.0.1"
POD_RANGE = "10.91.0.0/24"
SERVICE_RANGE = "10.92.0.0/16"
API_ADDRESS = "10.92.0.1"
"""The first address of the services' range is the API server's, for pods."""
API_PORT = 6443
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)

USERS: dict[str, tuple[str, str]] = {
    "admin": ("admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
    "node": (f"system:node:{NODE}", "system:nodes"),
}
"""User and group of each component, by the name of its kubeconfig."""


def pod_network() -> str:
    """CNI: a bridge with addresses from a file, and host ports."""
    ranges = {"type": "host-local", "ranges": [[{"subnet": POD_RANGE}]]}
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": ranges | {"routes": [{"dst": "0.0.0.0/0"}]},
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, portmap]})


def containerd(folder: Path) -> str:
    """Containerd's settings.

    Without CAP_SYS_RESOURCE, runc cannot lower oom_score_adj: every pod would fail with
    "can't get final child's PID from pipe".
    """
    return f"""
version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
[grpc]
  address = "{folder}/containerd/sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""


def kubelet(folder: Path, *, client_ca: Path) -> str:
    """The kubelet's settings."""
    settings: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(client_ca)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDomain": "cluster.local",
        "clusterDNS": [NODE_ADDRESS],
        "containerRuntimeEndpoint": f"unix://{folder}/containerd/sock",
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1Gi",
            "imagefs.available": "1Gi",
        },
        "imageGCHighThresholdPercent": 100,
        "resolvConf": str(folder / "resolv.conf"),
    }
    return yaml.safe_dump(settings)


def name_service(folder: Path) -> str:
    """CoreDNS's settings."""
    return f"""
.:53 {{
    bind {NODE_ADDRESS}
    errors
    kubernetes cluster.local {{
        endpoint https://{NODE_ADDRESS}:{API_PORT}
        kubeconfig {folder}/admin.kubeconfig
        pods insecure
    }}
    cache 2
}}
"""
