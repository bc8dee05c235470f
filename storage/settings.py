"""Which backend a program uses: the storage options that the collector and the server share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.backend import Backend, ConfigError
from storage.local import LocalBackend
from storage.program.option_values import text
from storage.program.options import Option

_BACKENDS = ("local",)
_KNOWN_ELSEWHERE = frozenset({"gcs", "s3", "oss", "aliyunoss", "azureblob"})
"""Names that KubeRay's releases and the other versions of this program take."""

STORAGE_OPTIONS: tuple[Option, ...] = (
    Option(
        name="storage-backend",
        default=None,
        help="Where sessions are kept: `local` is a directory or mounted volume.",
        parse=lambda value: text(value).lower(),
        env=("STORAGE_BACKEND",),
        aliases=("runtime-class-name",),
        required=True,
    ),
    Option(
        name="storage-root-dir",
        default="",
        help="Prefix of all object keys, such as `log`; empty for none.",
        parse=text,
        env=("STORAGE_ROOT_DIR", "RAY_ROOT_DIR"),
        aliases=("ray-root-dir",),
    ),
    Option(
        name="storage-local-dir",
        default=None,
        help="The directory of the `local` backend; it must exist. Several programs may share it.",
        parse=text,
        env=("STORAGE_LOCAL_DIR",),
    ),
)


def open_backend(values: Mapping[str, Any]) -> Backend:
    """Make the backend that the options name.

    Args:
        values: what `program.options.load` made of `STORAGE_OPTIONS` (and any others).

    Raises `ConfigError` whose text is one line for the user.

    """
    name = str(values["storage_backend"] or "")
    if name in _KNOWN_ELSEWHERE:
        raise ConfigError(
            f"--storage-backend={name}: not in this version; use one of {', '.join(_BACKENDS)}"
        )
    if name not in _BACKENDS:
        raise ConfigError(
            f"--storage-backend={name}: no such backend; use one of {', '.join(_BACKENDS)}"
        )
    directory = values["storage_local_dir"]
    if not directory:
        raise ConfigError(
            "--storage-local-dir: not set; the local backend needs the directory to use "
            "(or set STORAGE_LOCAL_DIR)"
        )
    return LocalBackend(Path(directory), root=str(values["storage_root_dir"] or ""))
