"""Renders the chart with the real helm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.chart.schema import CHART
from tests.cluster.build import folder

KUBERNETES = "1.34.0"
ALL_VALUES = CHART / "ci/all-values.yaml"


class NoHelmError(Exception):
    """There is no helm."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """What helm said."""

    status: int
    objects: tuple[dict[str, Any], ...]
    error: str

    def one(self, kind: str, name: str = "") -> dict[str, Any]:
        """The only object of this kind, or the one of this name."""
        found = [
            each
            for each in self.objects
            if each["kind"] == kind and name in ("", each["metadata"]["name"])
        ]
        assert len(found) == 1, [each["metadata"]["name"] for each in found]
        return found[0]

    def kinds(self) -> set[str]:
        """The kinds there are."""
        return {each["kind"] for each in self.objects}


def helm() -> str:
    """The command. Raises `NoHelmError` with what to do."""
    own = folder() / "helm"
    found = str(own) if os.access(own, os.X_OK) else shutil.which("helm")
    if found is None:
        raise NoHelmError(
            "no helm: install it, or build it with `python -m tests.cluster.build api`"
        )
    return found


def package(folder: Path) -> Path:
    """The chart as a release has it, in this folder."""
    command = [helm(), "package", str(CHART), "--destination", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("*.tgz")
    return path


def rendered(
    values: dict[str, Any] | None = None,
    *,
    files: tuple[Path, ...] = (),
    kubernetes: str = KUBERNETES,
    namespace: str = "kuberay",
) -> Rendering:
    """`helm template` with these values; never raises for what helm refuses."""
    command = [helm(), "template", "rel", str(CHART), f"--namespace={namespace}"]
    command += [f"--kube-version={kubernetes}", *(f"--values={path}" for path in files)]
    if values is not None:
        command += ["--values=-"]
    done = subprocess.run(
        command, input=json.dumps(values or {}), capture_output=True, text=True, check=False
    )
    documents = yaml.safe_load_all(done.stdout) if done.returncode == 0 else ()
    return Rendering(done.returncode, tuple(each for each in documents if each), done.stderr)
