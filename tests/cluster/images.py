"""Builds the container images that a node of the tests needs, without any image registry.

`python -m tests.cluster.images` makes a Debian base (debootstrap), a pause image, a Ray image
from PyPI, and ours from their Dockerfiles, with buildah and chroot isolation. Each becomes an
archive in `images` of the cache folder, named after what it is made of, and is not made again.
Cold, on two cores: about 6 minutes; ours again after a change: about 90 seconds.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.build import cache

ROOT = Path(__file__).parents[2]
SUITE = "bookworm"
BASE = f"localhost/debian:{SUITE}"
PAUSE = "localhost/pause:1"
RAY_VERSION = "2.55.1"
RAY = f"localhost/ray:{RAY_VERSION}"
TAG = "e2e"
TOOLS = ("buildah", "debootstrap", "busybox")

RAY_DOCKERFILE = f"""
FROM {BASE}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends wget procps \\
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/ray && /opt/ray/bin/pip install -q --no-cache-dir \\
      "ray[default,serve]=={RAY_VERSION}" "protobuf>=6.33.5,<7"
RUN useradd -m -u 1000 ray && ln -s /opt/ray/bin/python /opt/ray/bin/ray /usr/local/bin/
ENV PATH=/opt/ray/bin:/usr/local/bin:/usr/bin:/bin
USER ray
WORKDIR /home/ray
"""
"""As much like Ray's own image as these tests need: its user, wget for probes, ps for hooks."""

PAUSE_DOCKERFILE = """
FROM scratch
COPY busybox /bin/busybox
ENTRYPOINT ["/bin/busybox", "sleep", "2147483647"]
"""


class ImageError(Exception):
    """An image cannot be built; the message says what is missing or what failed."""


@dataclass(frozen=True, slots=True)
class Product:
    """One image of ours: its Dockerfile's folder, and the folders and locks that go into it."""

    name: str
    folder: str
    sources: tuple[str, ...]
    locks: tuple[str, ...]

    @property
    def tag(self) -> str:
        """The image's whole name."""
        return f"localhost/{self.name}:{TAG}"


PRODUCTS = (
    Product("ray-history-collector", "collector", ("collector", "storage"), ("collector",)),
    Product(
        "ray-history-server",
        "historyserver",
        ("historyserver", "storage"),
        ("historyserver", "dashboard"),
    ),
    Product("ray-history-webhook", "webhook", ("webhook", "certs"), ("webhook",)),
)


def missing_tools() -> list[str]:
    """Commands that are not installed; each is also the name of a Debian package, or nearly."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def build_all() -> list[Path]:
    """The archives of all images, made where they are missing. Two builds wait for each other."""
    if absent := missing_tools():
        raise ImageError(
            f"no {', '.join(absent)}: apt-get install buildah debootstrap busybox-static"
        )
    _folder().mkdir(parents=True, exist_ok=True)
    with (_folder() / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _make_base()
        return [_pause(), _ray(), *(_product(one) for one in PRODUCTS)]


def _folder() -> Path:
    return cache() / "images"


def _archive(name: str, parts: Sequence[bytes]) -> Path:
    """Where the archive of an image made of these parts is."""
    digest = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts))
    return _folder() / f"{name}-{digest.hexdigest()[:16]}.tar"


def _make_base() -> None:
    if _buildah("images", "-q", BASE, fails=True).strip():
        return
    print(f"making {BASE}", flush=True)
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        root = Path(folder) / "root"
        include = "--include=ca-certificates,python3,python3-venv"
        _run(["debootstrap", "--variant=minbase", include, SUITE, str(root), *_mirror()])
        container = _buildah("from", "scratch").strip()
        _buildah("copy", "-q", container, str(root), "/")
        _buildah("config", "--cmd", "/bin/bash", container)
        _buildah("commit", "-q", container, BASE)
        _buildah("rm", container)


def _mirror() -> list[str]:
    """The package mirror of this machine, if its settings name one."""
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(path.read_text() for path in sources if path.is_file())
    found = re.findall(r"^(?:URIs: |deb (?:\[[^]]*\] )?)(\S+://\S+)", text, re.MULTILINE)
    return [url for url in found if url.rstrip("/").endswith("/debian")][:1]


def _pause() -> Path:
    busybox = Path(shutil.which("busybox") or "/bin/busybox")
    archive = _archive("pause", [busybox.read_bytes(), PAUSE_DOCKERFILE.encode()])
    if not archive.exists():
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(busybox, Path(folder) / "busybox")
            _build(PAUSE, Path(folder), archive, dockerfile=PAUSE_DOCKERFILE)
    return archive


def _ray() -> Path:
    archive = _archive("ray", [RAY_DOCKERFILE.encode()])
    if not archive.exists():
        with tempfile.TemporaryDirectory() as folder:
            _build(RAY, Path(folder), archive, dockerfile=RAY_DOCKERFILE)
    return archive


def _product(product: Product) -> Path:
    dockerfile = ROOT / product.folder / "Dockerfile"
    files = [dockerfile, ROOT / "pyproject.toml", ROOT / ".dockerignore", *_sources(product)]
    names = [str(path.relative_to(ROOT)) for path in files]  # the same in every checkout
    contents = [path.read_bytes() for path in files]
    parts = [
        part for name, text in zip(names, contents, strict=True) for part in (name.encode(), text)
    ]
    archive = _archive(product.name, parts)
    if not archive.exists():
        arguments = ["-f", str(dockerfile), "--build-arg", f"BASE={BASE}"]
        _build(product.tag, ROOT, archive, arguments=arguments)
    return archive


def _sources(product: Product) -> Iterator[Path]:
    yield from (ROOT / "requirements" / f"{name}.lock" for name in ("build", *product.locks))
    for name in product.sources:
        for path in sorted((ROOT / name).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def _build(
    tag: str,
    context: Path,
    archive: Path,
    *,
    dockerfile: str = "",
    arguments: Sequence[str] = (),
) -> None:
    print(f"building {tag}", flush=True)
    if dockerfile:
        (context / "Dockerfile").write_text(dockerfile)
    _buildah("bud", "-q", *_machine_settings(), "-t", tag, *arguments, str(context))
    part = archive.with_name(f"{archive.name}.part")
    part.unlink(missing_ok=True)
    _buildah("push", "-q", "-D", tag, f"oci-archive:{part}:{tag}")
    for old in _folder().glob(f"{archive.name.rpartition('-')[0]}-*.tar"):
        old.unlink()
    part.replace(archive)


def _machine_settings() -> list[str]:
    """The build downloads as this machine does: its CA bundle, pip's and apt's settings."""
    at = [path for path in ("/etc/ssl/certs", "/etc/pip.conf", "/etc/apt") if Path(path).exists()]
    return [part for path in at for part in ("-v", f"{path}:{path}:ro")]


def _buildah(*arguments: str, fails: bool = False) -> str:
    at = cache() / "buildah"
    command = ["buildah", "--storage-driver=vfs", f"--root={at}/root", f"--runroot={at}/run"]
    return _run([*command, *arguments], fails=fails)


def _run(command: Sequence[str], *, fails: bool = False) -> str:
    environment = os.environ | {"BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode and not fails:
        told = (done.stdout + done.stderr)[-3000:]
        raise ImageError(f"{' '.join(command)} failed:\n{told}")
    return done.stdout


if __name__ == "__main__":
    try:
        build_all()
    except (ImageError, OSError) as error:
        sys.exit(f"tests.cluster.images: {error}")
