"""The program: `webhook serve|inject|explain|version`.

Exit codes: 0 done, 1 failed while working, 2 a setting or argument is wrong.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from webhook import logs
from webhook.settings_sources import CONFIG_ENV, CONFIG_FLAG, SettingsError, read_settings
from webhook.settings_table import rows

PROG = "webhook"
DISTRIBUTION = "ray-history-server"
USAGE = """\
usage: webhook serve [--OPTION=VALUE ...]
       webhook inject -f FILE [ASSUMPTIONS] [--OPTION=VALUE ...]
       webhook explain FILE [ASSUMPTIONS] [--json] [--OPTION=VALUE ...]
       webhook version

serve    answer the API server's admission reviews
inject   print the manifests of FILE (- is the standard input) with the collector put into their
         Ray pods, as the webhook would; no cluster is asked
explain  say for each pod of FILE whether it gets a collector, and why

assumptions:
  --namespace=NAME         where the manifests name none (default: default)
  --labelled=false         the namespace has no label (default: it has)
  --native-sidecars=false  the cluster runs Kubernetes below 1.29 (default: 1.29 or newer)
"""


def main(argv: Sequence[str] | None = None, env: Mapping[str, str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    environment = os.environ if env is None else env
    if not arguments or any(one in ("-h", "-help", "--help") for one in arguments):
        print(help_text())
        return 0 if arguments else 2
    verb = arguments.pop(0)
    run = {
        "serve": _serve,
        "inject": _inject,
        "explain": _explain,
        "version": _version,
        "--version": _version,
    }.get(verb)
    if run is None:
        return _fail(f"{verb[:80]!r}: no such command; use serve, inject, explain or version", 2)
    try:
        run(arguments, environment)
    except SettingsError as error:
        return _fail(str(error), 2)
    except OSError as error:
        return _fail(str(error), 1)
    return 0


def help_text() -> str:
    """What `--help` prints."""
    lines = [
        USAGE,
        "options:",
        f"  --{CONFIG_FLAG}  ({CONFIG_ENV})",
        "      YAML file of settings.",
    ]
    for row in rows():
        notes = [row.meaning]
        if row.choices:
            notes.append(f"One of: {', '.join(row.choices)}.")
        if row.default_text:
            notes.append(f"Default: {row.default_text}.")
        lines.append(f"  --{row.flag}  ({row.env})")
        lines += textwrap.wrap(
            " ".join(notes), 84, initial_indent=" " * 6, subsequent_indent=" " * 6
        )
    return "\n".join(lines)


def installed_version() -> str:
    """The version of the installed distribution; `0` when it runs from a bare checkout."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0"


# Imported late: no command needs the web server, the client and the YAML of the others.


def _serve(arguments: list[str], env: Mapping[str, str]) -> None:
    settings = read_settings(arguments, env)
    logs.set_up(level=settings.log_level)
    from webhook.in_cluster import make_parts  # noqa: PLC0415
    from webhook.kube.client import NoClusterError, connect  # noqa: PLC0415
    from webhook.serving import Server  # noqa: PLC0415

    try:
        connect(settings.kubernetes.kubeconfig).close()
    except NoClusterError as error:
        raise SettingsError(f"{error}; give --kubernetes-kubeconfig=FILE") from error
    Server(settings, make_parts).run()


def _inject(arguments: list[str], env: Mapping[str, str]) -> None:
    from webhook.offline import inject  # noqa: PLC0415

    inject(arguments, env)


def _explain(arguments: list[str], env: Mapping[str, str]) -> None:
    from webhook.offline import explain  # noqa: PLC0415

    explain(arguments, env)


def _version(arguments: list[str], env: Mapping[str, str]) -> None:
    del arguments, env
    print(f"{PROG} {installed_version()}")


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    print(f"{PROG}: error: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
