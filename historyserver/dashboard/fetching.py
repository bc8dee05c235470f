"""Copies Ray's built dashboard out of a ray wheel or an installed ray package.

The files are Apache-2.0 (speedscope: MIT); the licence files come along. Source maps are the
only thing left out: they are most of the size and only for debugging.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from historyserver.dashboard.files import installed_build

BUILD = "ray/dashboard/client/build/"
LICENSE_NAME = "LICENSE-ray.txt"


class FetchError(Exception):
    """The dashboard cannot be copied; one line for the user."""


def fetch_ui(source: str, folder: Path) -> int:
    """Copy the build into a folder and return how many files it has.

    Args:
        source: a ray wheel, a folder with a ray package in it, or `installed`.
        folder: where to; made when missing, files of an earlier copy are replaced.

    Raises `FetchError`.

    """
    if source == "installed":
        build = installed_build()
        if build is None:
            raise FetchError("no ray package with a dashboard is installed; give a ray wheel")
        files = _of_folder(build)
    elif Path(source).is_dir():
        build = Path(source) / PurePosixPath(BUILD)
        files = _of_folder(build if build.is_dir() else Path(source))
    elif zipfile.is_zipfile(source):
        files = _of_wheel(Path(source))
    else:
        raise FetchError(f"{source}: not a ray wheel, not a folder and not `installed`")
    count = 0
    has_page = False
    for name, content in files:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        has_page = has_page or name == "index.html"
        count += 1
    if not has_page:
        shutil.rmtree(folder, ignore_errors=count == 0)
        raise FetchError(f"{source}: holds no built dashboard")
    return count


def _of_folder(build: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(build.rglob("*")):
        if file.is_file() and file.suffix != ".map":
            yield file.relative_to(build).as_posix(), file.read_bytes()
    for info in sorted(build.parents[3].glob("ray-*.dist-info")) if len(build.parents) > 3 else ():
        for licence in sorted(info.rglob("LICENSE*")):
            yield LICENSE_NAME, licence.read_bytes()
            return


def _of_wheel(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = PurePosixPath(name)
            if ".." in path.parts or name.endswith("/"):
                continue
            if name.startswith(BUILD) and path.suffix != ".map":
                yield name.removeprefix(BUILD), archive.read(name)
            elif ".dist-info/" in name and path.name.startswith("LICENSE"):
                yield LICENSE_NAME, archive.read(name)
