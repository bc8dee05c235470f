"""Kubeconfig files of the tests' clusters."""

from __future__ import annotations

from pathlib import Path

import yaml


def write_kubeconfig(path: Path, *, server: str, ca_file: Path, token: str) -> None:
    """A kubeconfig of one user, whom a token names; nobody else may read the file."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": server, "certificate-authority": str(ca_file)}}
        ],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content))
