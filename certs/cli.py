"""The command `certs`: run, show, rotate.

Exit status: 0 when all is well, 1 when it could not start, could not reach the API server, or
`show` found a problem, 2 for wrong settings.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Sequence

import msgspec

from certs import logs
from certs.api import NoClusterError
from certs.authority import EcForge
from certs.clock import ServerClock
from certs.cluster import ClusterError, Failure
from certs.kept import Reason
from certs.looks import Look, looked, write
from certs.rotation import signing
from certs.running import Run, reach
from certs.settings import Settings
from certs.settings_sources import CONFIG_ENV, SettingsError, read_settings, rows
from certs.showing import report, text
from certs.steps import MakeAuthority, MakeLeaf, Step

PROG = "certs"
VERBS = {
    "run": "keep the certificates: Secret, bundle and files, until told to stop",
    "show": "show what is kept and what is due (--json)",
    "rotate": "make a new leaf now, or begin with a new CA (--ca)",
}
_TRIES = 5
"""Of a rotation that others' writes come before."""


class _RefusedError(Exception):
    """What is asked for cannot be done now."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or {"-h", "--help", "help"}.intersection(arguments):
        print(_help())
        return 0 if arguments else 2
    if {"--version", "version"}.intersection(arguments[:1]):
        print(f"{PROG} {importlib.metadata.version('ray-history-server')}")
        return 0
    try:
        return _run_verb(arguments[0], arguments[1:])
    except SettingsError as error:
        print(f"{PROG}: error: {error}", file=sys.stderr)
        return 2
    except (NoClusterError, ClusterError, _RefusedError) as error:
        print(f"{PROG}: error: {error}", file=sys.stderr)
        return 1


def _run_verb(verb: str, arguments: list[str]) -> int:
    if verb == "run":
        return _run(read_settings(arguments, os.environ))
    if verb == "show":
        as_json = _taken("--json", arguments)
        return _show(read_settings(arguments, os.environ), as_json=as_json)
    if verb == "rotate":
        authority = _taken("--ca", arguments)
        return _rotate(read_settings(arguments, os.environ), authority=authority)
    raise SettingsError(f"{verb}: unknown; there is {', '.join(VERBS)}")


def _taken(flag: str, arguments: list[str]) -> bool:
    """Whether a verb's own flag stands there; taken out."""
    is_there = flag in arguments
    while flag in arguments:
        arguments.remove(flag)
    return is_there


def _run(settings: Settings) -> int:
    logs.set_up(level=settings.log_level)
    try:
        run = Run(settings)
    except OSError as error:
        where = f"{settings.address}:{settings.health_port}"
        print(f"{PROG}: error: cannot listen on {where}: {error}", file=sys.stderr)
        return 1
    run.until_told()
    return 0


def _show(settings: Settings, *, as_json: bool) -> int:
    clock = ServerClock()
    cluster = reach(settings, clock)
    errors: list[str] = []
    look = looked(cluster, settings.configurations, lambda error: errors.append(str(error)))
    shown = report(look, cluster.lease(), now=clock.now(), policy=settings.policy)
    shown = msgspec.structs.replace(shown, problems=(*shown.problems, *errors))
    print(msgspec.json.format(msgspec.json.encode(shown)).decode() if as_json else text(shown))
    return 1 if shown.problems else 0


def _rotate(settings: Settings, *, authority: bool) -> int:
    """Write the first step; the leader that runs sees it and does the rest."""
    logs.set_up(level="warning", stream=sys.stderr)
    clock = ServerClock()
    cluster = reach(settings, clock)
    for _ in range(_TRIES):
        look = looked(cluster, settings.configurations, lambda error: None)
        step = _asked(look, settings, clock, authority=authority)
        try:
            write(
                cluster,
                look,
                step,
                forge=EcForge(),
                now=clock.now(),
                policy=settings.policy,
                may_create=False,
            )
        except ClusterError as error:
            if error.failure is Failure.CONFLICT:
                continue
            raise
        print(_said(settings, authority=authority))
        return 0
    raise _RefusedError("others write the Secret all the time; try again")


def _asked(look: Look, settings: Settings, clock: ServerClock, *, authority: bool) -> Step:
    kept = look.state.kept
    if authority:
        if kept.authorities and kept.signed_by != len(kept.authorities) - 1:
            raise _RefusedError("a new CA is on its way already; see `certs show`")
        return MakeAuthority(Reason.REQUESTED)
    signer = signing(look.state, clock.now(), settings.policy)
    if signer is None:
        raise _RefusedError("no CA can sign now; `certs run` makes one")
    return MakeLeaf(Reason.REQUESTED, signer.id)


def _said(settings: Settings, *, authority: bool) -> str:
    if not authority:
        return "a new leaf is in the Secret; replicas serve it within seconds"
    signs = settings.publish_s + settings.skew_s
    gone = settings.remove_s + settings.skew_s
    return (
        "a new CA is in the Secret; the leader publishes it within seconds, signs with it "
        f"{signs} s later and removes the old one {gone} s after that"
    )


def _help() -> str:
    lines = [f"usage: {PROG} VERB [--OPTION=VALUE ...]", ""]
    lines += [f"  {verb:<8}{meaning}" for verb, meaning in VERBS.items()]
    lines += ["", f"  --config=FILE   YAML file with these settings (also {CONFIG_ENV})", ""]
    for row in rows():
        default = f" [{row.default_text}]" if row.default_text else ""
        lines.append(f"  --{row.flag}=  {row.meaning}{default}")
        lines.append(f"      in the file: {row.name}; environment: {row.env}")
    return "\n".join(lines)
