"""One table of options per program: the only source of its flags, environment names and docs.

Flags win over the environment, that over the default. Contradictions are errors, never a
silent choice: two names of one option with different values, an unknown flag, a bad value.
Both `--flag=value` and `--flag value` work, with one dash too, as Go's programs (KubeRay's) do.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage.program.option_values import boolean

HELP_FLAGS = frozenset({"-h", "-help", "--help"})
VERSION_FLAGS = frozenset({"-version", "--version"})


class OptionError(Exception):
    """A setting is wrong. One line: what, where it was given, what to do."""


@dataclass(frozen=True)
class Option:
    """One setting. `name` is its flag without dashes; `load` keys it with `_` for `-`."""

    name: str
    default: str | None
    """As a user would write it; None means not set."""
    help: str
    parse: Callable[[str], object]
    """Raises ValueError whose text completes "FLAG=VALUE: ..."."""
    env: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other names of the flag, as KubeRay's releases had them."""
    required: bool = False
    choices: tuple[str, ...] = ()
    """What may be given, whatever the case; `parse` gets it as spelt here."""
    secret: bool = False
    """Its value is in no message and no log."""


@dataclass(frozen=True)
class _Given:
    """One value and where it was given: `--flag` or an environment name."""

    where: str
    text: str


def load(
    options: Sequence[Option], *, argv: Sequence[str], env: Mapping[str, str]
) -> dict[str, Any]:
    """Read all options; the result has every one of them, None for what is not set.

    An empty environment value counts as not set, as Kubernetes manifests often carry them.
    Raises `OptionError`.
    """
    by_flag: dict[str, list[_Given]] = {}
    for option, flag in _flags(options, argv):
        by_flag.setdefault(option.name, []).append(flag)
    values: dict[str, Any] = {}
    for option in options:
        by_env = [_Given(name, env[name]) for name in option.env if env.get(name)]
        given = by_flag.get(option.name) or by_env
        values[option.name.replace("-", "_")] = _value(option, given)
    return values


def help_text(options: Sequence[Option], *, prog: str, summary: str) -> str:
    """What `--help` prints."""
    lines = [f"usage: {prog} [--OPTION=VALUE ...]", "", *textwrap.wrap(summary, 90), "", "options:"]
    for option in options:
        names = ", ".join(f"--{name}" for name in (option.name, *option.aliases))
        lines.append(f"  {names}")
        notes = [option.help, *_notes(option)]
        lines += textwrap.wrap(
            " ".join(notes), 84, initial_indent=" " * 6, subsequent_indent=" " * 6
        )
    lines += ["  --help, --version", ""]
    return "\n".join(lines)


def markdown(options: Sequence[Option]) -> str:
    """The same as a table for the documentation."""
    rows = ["| Option | Environment | Default | Meaning |", "|---|---|---|---|"]
    for option in options:
        names = "<br>".join(f"`--{name}`" for name in (option.name, *option.aliases))
        env = "<br>".join(f"`{name}`" for name in option.env)
        meaning = option.help
        if option.choices:
            meaning += f" One of {', '.join(f'`{choice}`' for choice in option.choices)}."
        rows.append(f"| {names} | {env} | {_default(option)} | {_cell(meaning)} |")
    return "\n".join(rows) + "\n"


def _flags(options: Sequence[Option], argv: Sequence[str]) -> Iterator[tuple[Option, _Given]]:
    by_flag = {name: option for option in options for name in (option.name, *option.aliases)}
    rest = iter(argv)
    for argument in rest:
        name, equals, text = argument.partition("=")
        flag = name.removeprefix("-").removeprefix("-")
        if not name.startswith("-") or not flag:
            raise OptionError(f"{_printable(argument)}: unexpected argument; options begin with --")
        option = by_flag.get(flag)
        if option is None:
            raise OptionError(f"{_printable(name)}: unknown option{_nearest(flag, by_flag)}")
        if not equals:
            # A switch never takes the next argument: `--switch other` would be ambiguous.
            following = "true" if option.parse is boolean else next(rest, None)
            if following is None:
                raise OptionError(f"--{flag}: needs a value, as --{flag}=VALUE")
            text = following
        yield option, _Given(f"--{flag}", text)


def _value(option: Option, given: Sequence[_Given]) -> object:
    parsed = [(one, _parsed(option, one)) for one in given]
    for other, value in parsed[1:]:
        first, first_value = parsed[0]
        if value != first_value:
            raise OptionError(
                f"{_described(option, first)} and {_described(option, other)} contradict each "
                "other; give one of them"
            )
    if parsed:
        return parsed[0][1]
    if option.default is not None:
        return _parsed(option, _Given(f"default of --{option.name}", option.default))
    if option.required:
        env = f" or set {option.env[0]}" if option.env else ""
        raise OptionError(f"--{option.name}: not set; give --{option.name}=VALUE{env}")
    return None


def _parsed(option: Option, given: _Given) -> object:
    text = given.text
    if option.choices:
        by_case = {choice.casefold(): choice for choice in option.choices}
        if text.strip().casefold() not in by_case:
            raise OptionError(
                f"{_described(option, given)}: must be one of {', '.join(option.choices)}"
            )
        text = by_case[text.strip().casefold()]
    try:
        return option.parse(text)
    except ValueError as error:
        raise OptionError(f"{_described(option, given)}: {_printable(str(error))}") from error


def _described(option: Option, given: _Given) -> str:
    return given.where if option.secret else f"{given.where}={_printable(given.text)}"


def _nearest(flag: str, by_flag: Mapping[str, Option]) -> str:
    near = difflib.get_close_matches(flag, by_flag, n=1)
    return f"; did you mean --{near[0]}?" if near else "; --help lists them"


def _printable(text: str) -> str:
    line = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return line if len(line) <= 200 else f"{line[:200]}..."


def _notes(option: Option) -> Iterator[str]:
    if option.choices:
        yield f"One of: {', '.join(option.choices)}."
    if option.default:
        yield f"Default: {option.default}."
    if option.required:
        yield "Required."
    if option.env:
        yield f"Environment: {', '.join(option.env)}."


def _default(option: Option) -> str:
    if option.required:
        return "required"
    return f"`{option.default}`" if option.default else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
