"""Several nodes with addresses of their own, joined by a bridge in a private namespace.

The switch is a namespace that holds only the bridge; each node is a namespace inside it, with
one end of a virtual cable. Ending the switch ends all nodes.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from demo.namespace import Namespace, NamespaceError

BRIDGE = "br0"
SUBNET = "10.77.0"


@dataclass(frozen=True, slots=True)
class Switch:
    """The shared network."""

    namespace: Namespace
    nodes: list[Namespace] = field(default_factory=list)

    @classmethod
    def start(cls) -> Switch:
        """Make the network with its bridge at 10.77.0.254."""
        if not shutil.which("ip"):
            raise NamespaceError("ip not found: install iproute2")
        switch = cls(Namespace.start())
        switch.ip("link", "add", BRIDGE, "type", "bridge")
        switch.ip("addr", "add", f"{SUBNET}.254/24", "dev", BRIDGE)
        switch.ip("link", "set", BRIDGE, "up")
        return switch

    def node(self, number: int, *, binds: Sequence[tuple[Path, Path]]) -> tuple[Namespace, str]:
        """A namespace with the address 10.77.0.NUMBER; answers it and the address."""
        node = Namespace.start(binds=binds, inside=self.namespace)
        self.nodes.append(node)
        cable, address = f"node{number}", f"{SUBNET}.{number}"
        # The pid is the one outside: this command enters the network namespace only.
        peer = ("peer", "name", "eth0", "netns", str(node.init_pid))
        self.ip("link", "add", cable, "type", "veth", *peer)
        self.ip("link", "set", cable, "master", BRIDGE, "up")
        inside = self.of(node)
        _run([*inside, "ip", "addr", "add", f"{address}/24", "dev", "eth0"])
        _run([*inside, "ip", "link", "set", "eth0", "up"])
        _run([*inside, "ip", "route", "add", "default", "via", f"{SUBNET}.254"])
        return node, address

    def ip(self, *arguments: str) -> None:
        """Run `ip` in the switch's network namespace."""
        _run([*self.of(self.namespace), "ip", *arguments])

    @staticmethod
    def of(namespace: Namespace) -> list[str]:
        """The prefix that enters a namespace's network only."""
        user = ["-U", "--preserve-credentials"] if namespace.as_user else []
        return ["nsenter", "-t", str(namespace.init_pid), "-n", *user, "--"]

    def close(self) -> None:
        """End the network and every node in it; no process is left to wait for."""
        for node in self.nodes:
            node.close()
        self.namespace.close()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NamespaceError(f"{' '.join(command[-6:])}: {done.stderr.strip()}")
