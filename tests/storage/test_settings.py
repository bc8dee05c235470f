"""The storage options that all programs share, and the backend that they open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage.backend import Backend, ConfigError
from storage.program.options import OptionError, load
from storage.settings import STORAGE_OPTIONS, open_backend


def _values(*argv: str, **env: str) -> dict[str, Any]:
    return load(STORAGE_OPTIONS, argv=argv, env=env)


@pytest.mark.parametrize(
    ("argv", "env_names"),
    [
        (["--storage-backend=local", "--storage-root-dir=log", "--storage-local-dir={}"], ()),
        (["--runtime-class-name=Local", "--ray-root-dir=/log/", "--storage-local-dir={}"], ()),
        ([], ("STORAGE_BACKEND", "STORAGE_ROOT_DIR", "STORAGE_LOCAL_DIR")),
        ([], ("STORAGE_BACKEND", "RAY_ROOT_DIR", "STORAGE_LOCAL_DIR")),
    ],
)
def test_the_local_backend_by_all_names(
    tmp_path: Path, argv: list[str], env_names: tuple[str, ...]
) -> None:
    """Flags and environment, the names of both of KubeRay's releases."""
    env = dict(zip(env_names, ("local", "log", str(tmp_path)), strict=False))
    backend = open_backend(_values(*(flag.format(tmp_path) for flag in argv), **env))
    assert isinstance(backend, Backend)
    backend.put("k", b"x")
    assert (tmp_path / "log" / "k").read_bytes() == b"x"


def test_the_root_may_be_empty(tmp_path: Path) -> None:
    """As KubeRay's v1.7 has it."""
    open_backend(_values("--storage-backend=local", f"--storage-local-dir={tmp_path}")).put(
        "k", b"x"
    )
    assert (tmp_path / "k").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["gcs", "S3", "aliyunoss", "oss", "azureblob"])
def test_backends_of_other_versions_are_known_by_name(tmp_path: Path, name: str) -> None:
    """They are no typing errors, but not here."""
    values = _values(f"--storage-backend={name}", f"--storage-local-dir={tmp_path}")
    with pytest.raises(ConfigError, match=f"--storage-backend={name.lower()}: not in this version"):
        open_backend(values)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--storage-backend=localtest"], "no such backend; use one of local"),
        (["--storage-backend=local"], "--storage-local-dir: not set"),
        (["--storage-backend=local", "--storage-local-dir=/no/such/place"], "no such directory"),
        (
            ["--storage-backend=local", "--storage-local-dir=/tmp", "--storage-root-dir=../x"],
            "root dir",
        ),
    ],
)
def test_wrong_settings_are_one_line(argv: list[str], message: str) -> None:
    """What and what to do."""
    with pytest.raises(ConfigError) as caught:
        open_backend(_values(*argv))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_backend_must_be_named() -> None:
    """There is no default that would write somewhere unexpected."""
    with pytest.raises(OptionError, match="--storage-backend: not set"):
        _values()
