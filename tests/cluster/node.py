"""A one-node Kubernetes with the KubeRay operator, in network, PID and mount namespaces of its own.

Real etcd, API server, controllers, scheduler, containerd, kubelet, kube-proxy and CoreDNS. Needs
root, the binaries of `tests.cluster.build node`, the images of `tests.cluster.images`, and from
Debian: containerd runc containernetworking-plugins iptables conntrack iproute2. Ready in about
half a minute. When the namespace's first process ends, so does all of it.
"""

from __future__ import annotations

import contextlib
import csv
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from demo.namespace import Namespace, Process
from tests.cluster import build, node_files, pki
from tests.cluster.client import Client
from tests.cluster.controllers import install_custom_resources
from tests.cluster.kubeconfig import write_kubeconfig
from tests.cluster.node_files import NODE, NODE_ADDRESS
from tests.cluster.relay import Relay

BINARIES = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "helm"),
    build.operator(),
    *(binary.name for binary in build.NODE),
)
TOOLS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
}
"""Commands by the Debian package that has them."""
NETWORK_PLUGINS = Path("/usr/lib/cni")
START_S = 120


class NodeError(Exception):
    """The node does not start; the message says which part and where its log is."""


def obstacles() -> list[str]:
    """Why no node can be started here; empty when one can."""
    found = []
    if os.geteuid() != 0:
        found.append("only root can start a Kubernetes node")
    if absent := build.missing(BINARIES):
        found.append(f"no {', '.join(absent)}: run `python -m tests.cluster.build node` once")
    wanted = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if not (NETWORK_PLUGINS / "bridge").exists():
        wanted.add("containernetworking-plugins")
    if wanted:
        found.append(f"apt-get install {' '.join(sorted(wanted))}")
    return found


@dataclass
class Node:
    """Started by `start`, ended by `stop`."""

    folder: Path
    namespace: Namespace
    tokens: dict[str, str]
    processes: dict[str, Process] = field(default_factory=dict)
    relay: Relay | None = None

    @classmethod
    def start(cls, folder: Path, *, images: Sequence[Path]) -> Node:
        """Start everything in an empty folder and wait until pods can run."""
        tokens = {name: secrets.token_hex(16) for name in node_files.USERS}
        node = cls(folder, Namespace.start(), tokens)
        try:
            node._prepare()
            node._start_api()
            node._start_controllers()
            node._start_node()
            node._load(images)
            node._await("the node", "get", "node", NODE, "-o", _READY, wanted="True")
        except BaseException:
            node.stop()
            raise
        return node

    @property
    def kubeconfig(self) -> Path:
        """Of the administrator, for this machine."""
        return self.folder / "outside.kubeconfig"

    def client(self) -> Client:
        """An administrator's client."""
        assert self.relay
        url = f"https://127.0.0.1:{self.relay.port}"
        return Client(url=url, ca_file=self._pki("server.crt"), token=self.tokens["admin"])

    def kubectl(self, *arguments: str, check: bool = True, stdin: str = "") -> str:
        """Run kubectl; its output."""
        command = [str(build.folder() / "kubectl"), f"--kubeconfig={self.kubeconfig}"]
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=False, input=stdin
        )
        if check and done.returncode:
            raise NodeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def process_logs(self) -> list[Path]:
        """Shown when a test fails."""
        return sorted(self.folder.glob("*.log"))

    def restart_kubelet(self, *, down_s: float = 0.0) -> None:
        """Kill the kubelet, as an upgrade of a node does; its pods run on."""
        kubelet = self.processes.pop("kubelet")
        kubelet.signal(signal.SIGKILL)
        kubelet.wait(20)
        time.sleep(down_s)
        self._start_kubelet()

    def stop(self) -> None:
        """End every process and container, and let go of the mounts."""
        if self.relay:
            self.relay.close()
        self.namespace.close()

    def _pki(self, name: str) -> Path:
        return self.folder / "pki" / name

    def _prepare(self) -> None:
        for name in ("pki", "cni", "containerd", "etcd", "kubelet"):
            (self.folder / name).mkdir()
        addresses = ["127.0.0.1", NODE_ADDRESS, node_files.API_ADDRESS]
        pki.write_server(self._pki(""), names=node_files.SERVER_NAMES, addresses=addresses)
        pki.write_accounts(self._pki(""))
        pki.write_kubelet_client(self._pki(""))
        with self._pki("tokens.csv").open("w", newline="") as file:
            for name, (user, group) in node_files.USERS.items():
                csv.writer(file).writerow([self.tokens[name], user, user, group])
        for name in node_files.USERS:
            self._write_kubeconfig(name, f"https://{NODE_ADDRESS}:{node_files.API_PORT}")
        for link in (
            # A veth pair with both ends here carries the address: some kernels have no dummy.
            "link add node0 type veth peer name node0p",
            f"addr add {NODE_ADDRESS}/24 dev node0",
            "link set node0 up",
            "link set node0p up",
            f"route add default via {NODE_ADDRESS} dev node0",
        ):
            self._inside("ip", *link.split())
        for setting in ("net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1"):
            with contextlib.suppress(NodeError):
                self._inside("sysctl", "-qw", setting)

    def _write_kubeconfig(self, name: str, server: str, *, user: str = "") -> None:
        path = self.folder / f"{name}.kubeconfig"
        token = self.tokens[user or name]
        write_kubeconfig(path, server=server, ca_file=self._pki("server.crt"), token=token)

    def _inside(self, *command: str) -> None:
        done = self.namespace.run(command)
        if done.returncode:
            raise NodeError(f"{' '.join(command)}: {done.stderr.strip()}")

    def _run(self, name: str, *arguments: str) -> None:
        path = build.folder() / name
        command = [str(path) if path.exists() else name, *arguments]
        environment = os.environ | {"PATH": f"{build.folder()}:{os.environ['PATH']}"}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = self.namespace.popen(
                command, env=environment, cwd=self.folder, output=log
            )

    def _start_api(self) -> None:
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--log-level=warn",
        )
        self._run("kube-apiserver", *self._api_arguments())
        target = (NODE_ADDRESS, node_files.API_PORT)
        self.relay = Relay.start(namespace_pid=self.namespace.init_pid, target=target)
        self._write_kubeconfig("outside", f"https://127.0.0.1:{self.relay.port}", user="admin")
        self._await("the API server", "get", "--raw", "/readyz", wanted="ok")

    def _api_arguments(self) -> list[str]:
        return [
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={NODE_ADDRESS}",
            f"--secure-port={node_files.API_PORT}",
            f"--tls-cert-file={self._pki('server.crt')}",
            f"--tls-private-key-file={self._pki('server.key')}",
            f"--token-auth-file={self._pki('tokens.csv')}",
            f"--service-account-key-file={self._pki('accounts.pub')}",
            f"--service-account-signing-key-file={self._pki('accounts.key')}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={node_files.SERVICE_RANGE}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            # The API server finds no node by name here.
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={self._pki('kubelet-client.crt')}",
            f"--kubelet-client-key={self._pki('kubelet-client.key')}",
            "--enable-aggregator-routing=true",
            f"--cert-dir={self._pki('')}",
        ]

    def _start_controllers(self) -> None:
        install_custom_resources(self.client(), build.custom_resources())
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.folder / 'controllers.kubeconfig'}",
            f"--service-account-private-key-file={self._pki('accounts.key')}",
            f"--root-ca-file={self._pki('server.crt')}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--allocate-node-cidrs=true",
            f"--cluster-cidr={node_files.POD_RANGE}",
            "--node-cidr-mask-size=24",
            f"--cert-dir={self._pki('')}",
        )
        scheduler = self.folder / "scheduler.kubeconfig"
        self._run("kube-scheduler", f"--kubeconfig={scheduler}", "--leader-elect=false")
        self._run(
            build.operator(),
            f"-kubeconfig={self.folder / 'admin.kubeconfig'}",
            "-enable-leader-election=false",
            "-use-kubernetes-proxy",
        )

    def _start_node(self) -> None:
        folder = self.folder
        (folder / "cni" / "10-pods.conflist").write_text(node_files.pod_network())
        (folder / "containerd.toml").write_text(node_files.containerd(folder))
        (folder / "Corefile").write_text(node_files.name_service(folder))
        (folder / "resolv.conf").write_text(f"nameserver {NODE_ADDRESS}\n")
        settings = node_files.kubelet(folder, client_ca=self._pki("kubelet-client.crt"))
        (folder / "kubelet.yaml").write_text(settings)
        self._run("containerd", f"--config={folder / 'containerd.toml'}")
        self._until("containerd", (folder / "containerd/sock").exists)
        self._start_kubelet()
        self._run(
            "kube-proxy",
            f"--kubeconfig={folder / 'proxy.kubeconfig'}",
            f"--hostname-override={NODE}",
            "--proxy-mode=iptables",
            f"--cluster-cidr={node_files.POD_RANGE}",
            "--conntrack-max-per-core=0",  # the kernel's limit is not ours to change
        )
        self._run("coredns", f"-conf={folder / 'Corefile'}")

    def _start_kubelet(self) -> None:
        self._run(
            "kubelet",
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.folder / 'node.kubeconfig'}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--cert-dir={self._pki('')}",
            f"--hostname-override={NODE}",
            f"--node-ip={NODE_ADDRESS}",
        )

    def _load(self, images: Sequence[Path]) -> None:
        address = str(self.folder / "containerd/sock")
        for archive in images:
            command = ["ctr", "-a", address, "-n", "k8s.io", "images", "import", str(archive)]
            done = self.namespace.run(command, timeout_s=180)
            if done.returncode:
                raise NodeError(f"{archive.name} cannot be loaded: {done.stderr.strip()}")

    def _await(self, what: str, *arguments: str, wanted: str) -> None:
        self._until(what, lambda: self.kubectl(*arguments, check=False).strip() == wanted)

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if is_so():
                return
            ended = [name for name, one in self.processes.items() if not one.running()]
            if ended:
                raise NodeError(f"{', '.join(ended)} ended; see {self.folder}/{ended[0]}.log")
            time.sleep(0.2)
        raise NodeError(f"{what} is not ready after {START_S} s; see the logs in {self.folder}")


_READY = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
