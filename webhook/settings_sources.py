"""Reads the settings: flags win over the environment, that over the YAML file, that over defaults.

Anything unknown and any wrong value is an error of one line that says where it was given.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import inspect

from webhook.settings import AccountMode, Settings
from webhook.settings_table import ENV_PREFIX, Row, rows

CONFIG_FLAG = "config"
CONFIG_ENV = f"{ENV_PREFIX}CONFIG"
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)\w*)?$")
"""What Kubernetes puts into every container for a Service called `webhook...`."""


class SettingsError(Exception):
    """A setting is wrong: one line with what, where it was given and what to do."""


@dataclass(frozen=True, slots=True)
class _Given:
    """A value, and where it was given."""

    row: Row
    where: str
    text: str


def read_settings(
    argv: Sequence[str], env: Mapping[str, str], *, to_inject: bool = True
) -> Settings:
    """Read all settings. `to_inject` asks for what adding a collector needs.

    An empty environment value counts as not set. Raises `SettingsError`.
    """
    flags, config = _flags(argv)
    config = config or env.get(CONFIG_ENV, "")
    document = _file(config) if config else {}
    for given in (*_environment(env), *flags):
        _put(document, given.row.path, _value(given))
    settings = _converted(document, config)
    problem = next(_contradictions(settings, to_inject), "")
    if problem:
        raise SettingsError(problem)
    return settings


def _flags(argv: Sequence[str]) -> tuple[list[_Given], str]:
    by_flag = {row.flag: row for row in rows()}
    given: list[_Given] = []
    config = ""
    rest = iter(argv)
    for argument in rest:
        name, equals, text = argument.partition("=")
        flag = name.removeprefix("-").removeprefix("-")
        if not name.startswith("-") or not flag:
            raise SettingsError(f"{_line(argument)}: unexpected argument; options begin with --")
        row = by_flag.get(flag)
        if row is None and flag != CONFIG_FLAG:
            raise SettingsError(f"--{_line(flag)}: unknown option{_nearest(flag, by_flag)}")
        if not equals:
            is_switch = row is not None and isinstance(row.bare, inspect.BoolType)
            following = "true" if is_switch else next(rest, None)
            if following is None:
                raise SettingsError(f"--{flag}: needs a value, as --{flag}=VALUE")
            text = following
        if row is None:
            config = text
        else:
            given.append(_Given(row, f"--{flag}", text))
    return given, config


def _environment(env: Mapping[str, str]) -> Iterator[_Given]:
    by_env = {row.env: row for row in rows()}
    for name, text in env.items():
        if not name.startswith(ENV_PREFIX) or name == CONFIG_ENV:
            continue
        row = by_env.get(name)
        if row is not None and text:
            yield _Given(row, name, text)
        if row is None and not _SERVICE_LINK.search(name):
            raise SettingsError(f"{_line(name)}: unknown setting{_nearest(name, by_env)}")


def _value(given: _Given) -> Any:
    """The value that a text means: as it stands for texts, as YAML for lists and maps."""
    kind = given.row.bare
    text = given.text.strip()
    if _is_list_of_texts(kind) and not text.startswith("["):
        return [part for part in (one.strip() for one in text.split(",")) if part]
    if isinstance(kind, inspect.VarTupleType | inspect.DictType):
        value = _yaml(text, given.where)
    else:
        value = text
    try:
        typed = msgspec.convert(value, _annotation(given.row), strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{given.where}={_line(text)}: {_said(error, given.row)}") from error
    return msgspec.to_builtins(typed)


def _is_list_of_texts(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.StrType)


def _annotation(row: Row) -> Any:
    """The type of a setting, as its struct has it."""
    kind: Any = Settings
    for name in row.path:
        field = next(f for f in msgspec.structs.fields(kind) if f.encode_name == name)
        kind = field.type
    return kind


def _file(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{_line(path)}: {error}") from error
    document = _yaml(text, path)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsError(f"{_line(path)}: not a map of settings")
    return _known(document, _tree(), (), path)


def _yaml(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"{_line(where)}: not YAML: {_line(str(error))}") from error


class _Loader(yaml.SafeLoader):
    """Refuses a name that is given twice in one map; YAML's rule, which PyYAML leaves out."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = getattr(key_node, "value", None)
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _tree() -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for row in rows():
        at = tree
        for name in row.path[:-1]:
            at = at.setdefault(name, {})
        at[row.path[-1]] = row
    return tree


def _known(
    document: Mapping[Any, Any], tree: Mapping[str, Any], at: tuple[str, ...], file: str
) -> dict[str, Any]:
    """The document, if every name in it is known.

    A name without a value counts as not set, as templates often leave one, but where null is a
    value.
    """
    found: dict[str, Any] = {}
    for name, value in document.items():
        place = ".".join((*at, str(name)))
        if name not in tree:
            near = _nearest(str(name), tree)
            raise SettingsError(f"{_line(file)}: {_line(place)}: unknown setting{near}")
        inner = tree[name]
        if isinstance(inner, Row):
            if value is not None or inner.takes_null:
                found[name] = value
        elif isinstance(value, dict):
            found[name] = _known(value, inner, (*at, str(name)), file)
        elif value is not None:
            found[name] = value
    return found


def _put(document: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        inner = document.get(name)
        if not isinstance(inner, dict):  # absent, or wrong in the file: replaced as a whole
            inner = document[name] = {}
        document = inner
    document[path[-1]] = value


def _converted(document: dict[str, Any], file: str) -> Settings:
    try:
        return msgspec.convert(document, Settings)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        name = place.strip("`.") or "settings"
        raise SettingsError(f"{_line(file)}: {name}: {_line(text)}") from error


def _contradictions(settings: Settings, to_inject: bool) -> Iterator[str]:
    account, rrsa = settings.service_account, settings.rrsa
    if to_inject and not settings.collector.image:
        yield "collector.image: not set; give --collector-image=IMAGE or set it in the file"
    if account.mode is AccountMode.FIXED and not account.name:
        yield "serviceAccount.name: mode fixed needs it; give --service-account-name=NAME"
    if rrsa.enabled and not (rrsa.role_arn and rrsa.provider_arn):
        yield "rrsa: enabled, but without both roleArn and providerArn"
    if settings.listen.port == settings.listen.health_port:
        yield "listen: port and healthPort are the same; give them different ones"


def _said(error: msgspec.ValidationError, row: Row) -> str:
    if row.choices:
        return f"must be one of {', '.join(row.choices)}"
    return _line(str(error).partition(" - at `$")[0])


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _line(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= 200 else f"{line[:200]}..."
