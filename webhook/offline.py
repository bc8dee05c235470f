"""`webhook inject` and `webhook explain`: the admission's own code over files, no cluster asked.

What a cluster would tell is assumed, and can be said otherwise by options.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import msgspec
import yaml

from webhook.facts import NamespaceFacts
from webhook.manifests import TemplateResult, injected
from webhook.settings import Settings
from webhook.settings_sources import SettingsError, read_settings

_SWITCH = {"true": True, "false": False}


class OfflineError(OSError):
    """A file cannot be read, or has no pods: one line that says which and why."""


@dataclass(frozen=True, slots=True)
class _Assumed:
    """What is taken for true of the cluster."""

    files: tuple[str, ...]
    namespace: str
    labelled: bool
    native_sidecars: bool
    as_json: bool


def inject(arguments: Sequence[str], env: Mapping[str, str]) -> None:
    """Print the manifests with collectors in them; what was done goes to standard error."""
    assumed, rest = _assumed(arguments, verb="inject")
    settings = read_settings(rest, env)
    documents = []
    for file, document in _documents(assumed.files):
        done = injected(
            document,
            namespace=_namespace(assumed, settings),
            settings=settings,
            native_sidecars=assumed.native_sidecars,
        )
        documents.append(done.document)
        for result in done.results:
            warnings = [f"  warning: {warning}" for warning in result.warnings]
            _write(sys.stderr, [_headline(file, result), *warnings])
    sys.stdout.write(_dumped(documents))


def explain(arguments: Sequence[str], env: Mapping[str, str]) -> None:
    """Say for each pod of the files whether it gets a collector, question by question."""
    assumed, rest = _assumed(arguments, verb="explain")
    settings = read_settings(rest, env, to_inject=False)
    found: list[tuple[str, TemplateResult]] = []
    for file, document in _documents(assumed.files):
        done = injected(
            document,
            namespace=_namespace(assumed, settings),
            settings=settings,
            native_sidecars=assumed.native_sidecars,
        )
        found += [(file, result) for result in done.results]
    if not found:
        raise OfflineError(f"{', '.join(assumed.files)}: no pod and nothing that makes pods")
    if assumed.as_json:
        lines = [msgspec.json.encode(_plain(file, result)).decode() for file, result in found]
    else:
        lines = [line for file, result in found for line in _explained(file, result)]
    _write(sys.stdout, lines)


def _write(stream: TextIO, lines: Sequence[str]) -> None:
    stream.writelines(f"{line}\n" for line in lines)


def _assumed(arguments: Sequence[str], *, verb: str) -> tuple[_Assumed, list[str]]:
    """Take the verb's own options and files; the rest are settings."""
    files: list[str] = []
    own = {"namespace": "default", "labelled": "true", "native-sidecars": "true", "json": "false"}
    rest: list[str] = []
    pending = iter(arguments)
    for argument in pending:
        name, equals, value = argument.partition("=")
        flag = name.removeprefix("-").removeprefix("-") if name.startswith("-") else ""
        if argument == "-" or not argument.startswith("-"):
            files.append(argument)
        elif flag in ("f", "filename"):
            files.append(value if equals else _next(pending, name))
        elif flag == "namespace":
            own[flag] = value if equals else _next(pending, name)
        elif flag in own:
            own[flag] = value if equals else "true"
        else:
            rest.append(argument if equals else f"{argument}={_next(pending, argument)}")
    if not files:
        raise SettingsError(f"{verb}: name a file, or - for the standard input")
    return (
        _Assumed(
            files=tuple(files),
            namespace=own["namespace"],
            labelled=_switch(own, "labelled"),
            native_sidecars=_switch(own, "native-sidecars"),
            as_json=_switch(own, "json"),
        ),
        rest,
    )


def _next(pending: Iterator[str], name: str) -> str:
    value = next(pending, None)
    if value is None:
        raise SettingsError(f"{name}: needs a value, as {name}=VALUE")
    return value


def _switch(own: Mapping[str, str], name: str) -> bool:
    value = _SWITCH.get(own[name].lower())
    if value is None:
        raise SettingsError(f"--{name}={own[name][:80]}: must be true or false")
    return value


def _namespace(assumed: _Assumed, settings: Settings) -> NamespaceFacts:
    labels = {settings.scope.label: "enabled"} if assumed.labelled else {}
    return NamespaceFacts(assumed.namespace, labels)


def _documents(files: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for file in files:
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
            documents = list(yaml.safe_load_all(text))
        except OSError as error:
            raise OfflineError(f"{file}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise OfflineError(f"{file}: not a text: {error.reason}") from error
        except (yaml.YAMLError, RecursionError) as error:
            raise OfflineError(f"{file}: not YAML: {error}") from error
        yield from ((file, document) for document in documents if document is not None)


def _headline(file: str, result: TemplateResult) -> str:
    name = " ".join(part for part in (result.kind, result.name, result.place) if part)
    outcome = "gets a collector" if result.decision.inject else "gets no collector"
    reason = f"{result.decision.reason.value}: {result.decision.message}"
    return f"{'stdin' if file == '-' else file}: {name} {outcome} ({reason})"


def _explained(file: str, result: TemplateResult) -> Iterator[str]:
    yield _headline(file, result)
    for check in result.checks:
        yield f"  {check.question} {check.answer}"
    if result.patch is not None:
        yield f"  added as a {result.patch.mode} sidecar: {', '.join(result.patch.added)}"
    for warning in result.warnings:
        yield f"  warning: {warning}"


def _plain(file: str, result: TemplateResult) -> dict[str, Any]:
    patch = result.patch
    return {
        "file": file,
        "kind": result.kind,
        "name": result.name,
        "place": result.place,
        "inject": result.decision.inject,
        "reason": result.decision.reason.value,
        "message": result.decision.message,
        "checks": [{"question": one.question, "answer": one.answer} for one in result.checks],
        "warnings": result.warnings,
        "mode": patch.mode if patch is not None else "",
        "added": patch.added if patch is not None else (),
    }


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, lists below their name, no references to other places."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _dumped(documents: Sequence[Any]) -> str:
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=1000,
        explicit_start=len(documents) > 1,
    )
