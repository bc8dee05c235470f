"""Serves Ray's own built dashboard, unchanged, under any prefix.

The build asks for everything by relative addresses and routes by `#` hash, so the same files
work under `/s/{namespace}/{kind}/{name}/{session}/` with the API beside them. A folder may hold
one build (`index.html` in it) or several, one per Ray version (`2.55.1/index.html`).
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from historyserver.http.answer_cache import BodyCache, StoredBody

IMMUTABLE = "public, max-age=31536000, immutable"
"""Files under `static/` have a hash of their content in their names."""
MAX_FILE_BYTES = 32 * 1024 * 1024
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; frame-src 'self'; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""What the stock build needs and no more: its styles are inline (Emotion), nothing else is."""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_COMPRESSED = (".html", ".js", ".css", ".json", ".map", ".txt", ".svg")
_VERSION = re.compile(r"\d+(\.\d+)*")


@dataclass(frozen=True, slots=True)
class DashboardFile:
    """A file of the build, ready to send."""

    body: bytes
    headers: tuple[tuple[str, str], ...]
    etag: str


class DashboardFiles:
    """The builds in one folder. Files are read when asked for; the popular ones stay in memory."""

    def __init__(self, folder: Path, *, cache_bytes: int = 8 * 1024 * 1024) -> None:
        self._builds = _find_builds(folder)
        self._cache = BodyCache(max_bytes=cache_bytes * 4)

    def index(self, ray_version: str, *, compressed: bool) -> DashboardFile | None:
        """The page of the build that fits a Ray version best."""
        build = self._build_for(ray_version)
        return None if build is None else self._read(build, "index.html", compressed=compressed)

    def file(self, path: str, *, compressed: bool) -> DashboardFile | None:
        """Any file of any build; names with a hash are the same file in all of them."""
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in path or "\\" in path:
            return None
        for build in self._builds.values():
            found = self._read(build, path, compressed=compressed)
            if found is not None:
                return found
        return None

    def _build_for(self, ray_version: str) -> Path | None:
        """The same version, else the newest of the same minor, else the newest."""
        if ray_version in self._builds:
            return self._builds[ray_version]
        newest_first = sorted(self._builds, key=_version_key, reverse=True)
        minor = _version_key(ray_version)[:2]
        for version in newest_first:
            if minor and _version_key(version)[:2] == minor:
                return self._builds[version]
        return self._builds[newest_first[0]] if newest_first else None

    def _read(self, build: Path, path: str, *, compressed: bool) -> DashboardFile | None:
        file = build / path
        try:
            real = file.resolve(strict=True)
            status = real.stat()
        except (OSError, ValueError):
            return None
        inside = real.is_relative_to(build) and real.is_file()
        if not inside or status.st_size > MAX_FILE_BYTES:
            return None
        squeeze = compressed and file.suffix in _COMPRESSED and status.st_size > 1024
        mark = f"{real}:{status.st_mtime_ns}:{status.st_size}"
        etag = f'W/"{hashlib.blake2b(mark.encode(), digest_size=10).hexdigest()}"'
        stored = self._cache.get((etag, squeeze))
        if stored is None:
            body = real.read_bytes()
            stored = StoredBody(
                gzip.compress(body, 6, mtime=0) if squeeze else body,
                _headers(file.suffix, path=path, compressed=squeeze),
            )
            self._cache.put((etag, squeeze), stored)
        return DashboardFile(stored.body, stored.headers, etag)


def installed_build() -> Path | None:
    """The build inside an installed ray package, found without importing it."""
    spec = importlib.util.find_spec("ray")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        build = Path(place) / "dashboard" / "client" / "build"
        if (build / "index.html").is_file():
            return build
    return None


def _find_builds(folder: Path) -> dict[str, Path]:
    if (folder / "index.html").is_file():
        return {"": folder.resolve()}
    try:
        inside = sorted(folder.iterdir())
    except OSError:
        inside = []
    builds = {one.name: one.resolve() for one in inside if (one / "index.html").is_file()}
    if builds:
        return builds
    installed = installed_build()
    return {"": installed.resolve()} if installed is not None else {}


def _headers(suffix: str, *, path: str, compressed: bool) -> tuple[tuple[str, str], ...]:
    cache = IMMUTABLE if path.startswith("static/") else "no-cache"
    headers = [
        ("Content-Type", _TYPES.get(suffix, "application/octet-stream")),
        ("Cache-Control", cache),
        ("Vary", "Accept-Encoding"),
    ]
    if compressed:
        headers.append(("Content-Encoding", "gzip"))
    return tuple(headers)


def _version_key(version: str) -> tuple[int, ...]:
    match = _VERSION.match(version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
