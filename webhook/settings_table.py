"""The settings as a table: one row per setting, with its names in file, flags and environment.

`collector.imagePullPolicy` in the YAML file is `--collector-image-pull-policy` as a flag and
`WEBHOOK_COLLECTOR_IMAGE_PULL_POLICY` in the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from webhook.settings import Settings

ENV_PREFIX = "WEBHOOK_"


@dataclass(frozen=True, slots=True)
class Row:
    """One setting."""

    path: tuple[str, ...]
    """Its place in the file."""
    type: inspect.Type
    default: Any
    meaning: str

    @property
    def name(self) -> str:
        """Its place in the file, in words."""
        return ".".join(self.path)

    @property
    def flag(self) -> str:
        """Its flag, without the dashes."""
        return "-".join(_kebab(part) for part in self.path)

    @property
    def env(self) -> str:
        """Its name in the environment."""
        return ENV_PREFIX + self.flag.replace("-", "_").upper()

    @property
    def bare(self) -> inspect.Type:
        """Its type without its description."""
        return _bare(self.type)

    @property
    def takes_null(self) -> bool:
        """Whether null is a value of it."""
        bare = self.bare
        return isinstance(bare, inspect.UnionType) and bare.includes_none

    @property
    def choices(self) -> tuple[str, ...]:
        """What may be given, where that is a list."""
        bare = self.bare
        if isinstance(bare, inspect.EnumType):
            return tuple(str(member.value) for member in bare.cls)
        pattern = getattr(bare, "pattern", None) or ""
        found = re.fullmatch(r"\^\(([\w|]+)\)\$", pattern)
        return tuple(found.group(1).split("|")) if found else ()

    @property
    def default_text(self) -> str:
        """The default as it is written; empty where nothing is set."""
        plain = msgspec.to_builtins(self.default)
        if plain in (None, "", [], {}, ()):
            return ""
        if isinstance(plain, str | float):
            return f"{plain:g}" if isinstance(plain, float) else plain
        return msgspec.json.encode(plain).decode()


@cache
def rows() -> tuple[Row, ...]:
    """Every setting, in the order of `settings.py`."""
    return tuple(_rows(inspect.type_info(Settings), (), Settings()))


def _rows(kind: inspect.Type, path: tuple[str, ...], value: Any) -> Iterator[Row]:
    assert isinstance(kind, inspect.StructType)  # noqa: S101  # a table of settings
    for field in kind.fields:
        inner = _bare(field.type)
        at, its = (*path, field.encode_name), getattr(value, field.name)
        if isinstance(inner, inspect.StructType):
            yield from _rows(inner, at, its)
        else:
            yield Row(path=at, type=field.type, default=its, meaning=_meaning(field.type))


def _bare(kind: inspect.Type) -> inspect.Type:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


def _meaning(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        return str((kind.extra_json_schema or {}).get("description", ""))
    return ""


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
