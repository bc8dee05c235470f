"""Reads the settings: flags win over the environment, that over the YAML file, that over defaults.

Anything unknown and any wrong value is an error of one line that says where it was given.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from certs.settings import Settings

ENV_PREFIX = "CERTS_"
CONFIG_FLAG = "config"
CONFIG_ENV = f"{ENV_PREFIX}CONFIG"
REQUIRED = ("namespace", "service", "secret", "configurations")
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)\w*)?$")
"""What Kubernetes puts into every container for a Service called `certs...`."""


class SettingsError(Exception):
    """A setting is wrong: one line with what, where it was given and what to do."""


@dataclass(frozen=True, slots=True)
class Row:
    """One setting."""

    name: str
    """In the file."""
    type: Any
    default: Any
    meaning: str

    @property
    def flag(self) -> str:
        """Its flag, without the dashes."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", self.name).lower()

    @property
    def env(self) -> str:
        """Its name in the environment."""
        return ENV_PREFIX + self.flag.replace("-", "_").upper()

    @property
    def is_list(self) -> bool:
        """Whether it takes several texts, separated by commas."""
        return isinstance(self.default, tuple)

    @property
    def is_switch(self) -> bool:
        """Whether its flag may stand alone."""
        return isinstance(self.default, bool)

    @property
    def default_text(self) -> str:
        """The default as it is written; empty where nothing is set."""
        if self.default in ("", ()):
            return ""
        return str(msgspec.to_builtins(self.default)).lower()


@cache
def rows() -> tuple[Row, ...]:
    """Every setting, in the order of `settings.py`."""
    return tuple(
        Row(field.encode_name, field.type, field.default, _meaning(field.type))
        for field in msgspec.structs.fields(Settings)
    )


def _meaning(kind: Any) -> str:
    metadata = [m for m in getattr(kind, "__metadata__", ()) if isinstance(m, msgspec.Meta)]
    return next((m.description for m in reversed(metadata) if m.description), "")


def read_settings(argv: Sequence[str], env: Mapping[str, str]) -> Settings:
    """Read all settings. An empty environment value counts as not set. Raises `SettingsError`."""
    flags = dict(_flags(argv))
    config = flags.pop(CONFIG_FLAG, "") or env.get(CONFIG_ENV, "")
    document = _file(config) if config else {}
    for row, where, text in _environment(env):
        document[row.name] = _value(row, where, text)
    by_flag = {row.flag: row for row in rows()}
    for flag, text in flags.items():
        document[by_flag[flag].name] = _value(by_flag[flag], f"--{flag}", text)
    settings = msgspec.convert(document, Settings)
    for name in REQUIRED:
        if not document.get(name):
            raise SettingsError(f"{name}: not set; give --{name}=VALUE or set it in the file")
    if 3 * settings.check_every_s > settings.lease_s:
        raise SettingsError(
            f"checkEverySeconds: {settings.check_every_s:g} is more than a third of leaseSeconds, "
            f"{settings.lease_s}: a leader could not renew in time"
        )
    return settings


def _flags(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    by_flag = {row.flag: row for row in rows()}
    rest = iter(argv)
    for argument in rest:
        name, equals, text = argument.partition("=")
        flag = name.removeprefix("--")
        if not name.startswith("--") or not flag:
            raise SettingsError(f"{_line(argument)}: unexpected argument; options begin with --")
        if flag not in by_flag and flag != CONFIG_FLAG:
            raise SettingsError(f"--{_line(flag)}: unknown option{_nearest(flag, by_flag)}")
        if not equals:
            is_switch = flag in by_flag and by_flag[flag].is_switch
            following = "true" if is_switch else next(rest, None)
            if following is None:
                raise SettingsError(f"--{flag}: needs a value, as --{flag}=VALUE")
            text = following
        yield flag, text


def _environment(env: Mapping[str, str]) -> Iterator[tuple[Row, str, str]]:
    by_env = {row.env: row for row in rows()}
    for name, text in env.items():
        if not name.startswith(ENV_PREFIX) or name == CONFIG_ENV:
            continue
        row = by_env.get(name)
        if row is not None and text:
            yield row, name, text
        if row is None and not _SERVICE_LINK.search(name):
            raise SettingsError(f"{_line(name)}: unknown setting{_nearest(name, by_env)}")


def _value(row: Row, where: str, text: str) -> Any:
    """The value that a text means."""
    value: Any = text.strip()
    if row.is_list:
        value = [part for part in (one.strip() for one in text.split(",")) if part]
    try:
        return msgspec.to_builtins(msgspec.convert(value, row.type, strict=False))
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}={_line(text)}: {_said(error)}") from error


def _file(path: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{_line(path)}: {_line(str(error))}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"{_line(path)}: not YAML: {_line(str(error))}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsError(f"{_line(path)}: not a map of settings")
    by_name = {row.name: row for row in rows()}
    for name, value in document.items():
        if name not in by_name:
            near = _nearest(str(name), by_name)
            raise SettingsError(f"{_line(path)}: {_line(str(name))}: unknown setting{near}")
        try:
            msgspec.convert(value, by_name[name].type)
        except msgspec.ValidationError as error:
            raise SettingsError(f"{_line(path)}: {name}: {_said(error)}") from error
    return document


def _said(error: msgspec.ValidationError) -> str:
    return _line(str(error).replace(" - at `$`", ""))


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _line(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= 200 else f"{line[:200]}..."
