"""The program: `historyserver [serve] --OPTION...`, `fetch-ui`, `compile`.

Exit codes: 0 done, 1 failed while working, 2 a setting or argument is wrong.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from historyserver.dashboard.fetching import FetchError, fetch_ui
from historyserver.http.selection import SelectionError
from historyserver.sessions.errors import SessionError
from historyserver.settings import (
    KUBERAY_OPTIONS,
    SERVER_OPTIONS,
    Settings,
    default_cache_dir,
    read_settings,
)
from storage.backend import ConfigError, StorageError
from storage.program import logs
from storage.program.option_values import text
from storage.program.options import HELP_FLAGS, VERSION_FLAGS, Option, OptionError, help_text, load
from storage.program.version import installed_version
from storage.settings import open_backend

PROG = "historyserver"
SUMMARY = (
    "Shows the stored sessions of Ray clusters in Ray's own dashboard. Commands: serve (the "
    "default), fetch-ui --from WHEEL --to DIR, compile NAMESPACE/KIND/NAME/SESSION."
)
FETCH_OPTIONS: tuple[Option, ...] = (
    Option(
        "from",
        default="installed",
        help="A ray wheel, a folder, or `installed` for the ray package of this Python.",
        parse=text,
    ),
    Option("to", default=None, help="The folder to fill.", parse=text, required=True),
)


def main(argv: Sequence[str] | None = None, env: Mapping[str, str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    environment = os.environ if env is None else env
    command = "serve"
    if arguments and not arguments[0].startswith("-"):
        command = arguments.pop(0)
    run = {"serve": _serve, "fetch-ui": _fetch, "compile": _compile}.get(command)
    if run is None:
        return _fail(f"{command[:80]!r}: no such command; use serve, fetch-ui or compile", 2)
    try:
        return run(arguments, environment)
    except (OptionError, ConfigError, SelectionError) as error:
        return _fail(str(error), 2)
    except (FetchError, SessionError, StorageError, OSError) as error:
        return _fail(str(error), 1)


def _serve(arguments: list[str], env: Mapping[str, str]) -> int:
    if _asked(arguments, (*SERVER_OPTIONS, *KUBERAY_OPTIONS)):
        return 0
    logs.set_up(level="info", style="auto")
    settings = read_settings(arguments, env)
    logs.set_up(level=settings.log_level, style=settings.log_format)
    backend = open_backend(settings.storage)
    # Imported late: `--help` and the other commands need no web server.
    from historyserver.compiled.cache import CompiledCache  # noqa: PLC0415
    from historyserver.web.serving import Server, make_app  # noqa: PLC0415

    _prepare_cache(settings)
    CompiledCache(settings.cache_dir, max_bytes=settings.cache_size_bytes).sweep()
    Server(settings, lambda: make_app(settings, backend)).run()
    return 0


def _fetch(arguments: list[str], env: Mapping[str, str]) -> int:
    if _asked(arguments, FETCH_OPTIONS):
        return 0
    values = load(FETCH_OPTIONS, argv=arguments, env=env)
    count = fetch_ui(values["from"], Path(values["to"]))
    print(f"{count} files of Ray's dashboard are in {values['to']}")
    return 0


def _compile(arguments: list[str], env: Mapping[str, str]) -> int:
    """Compile one session and store the result, as opening it in the server would."""
    if _asked(arguments, SERVER_OPTIONS):
        return 0
    named = [one for one in arguments if not one.startswith("-") and one.count("/") == 3]
    if len(named) != 1:
        raise OptionError("compile: name one session as NAMESPACE/KIND/NAME/SESSION")
    arguments.remove(named[0])
    logs.set_up(level="info", style="auto", stream=sys.stderr)  # stdout is for the report
    settings = read_settings(arguments, env)
    logs.set_up(level=settings.log_level, style=settings.log_format, stream=sys.stderr)
    backend = open_backend(settings.storage)
    _prepare_cache(settings)
    from historyserver.sessions.precompiling import precompile  # noqa: PLC0415

    print(json.dumps(precompile(settings, backend, named[0])))
    return 0


def _prepare_cache(settings: Settings) -> None:
    try:
        settings.cache_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = settings.cache_dir.stat().st_uid
    except OSError as error:
        raise OptionError(
            f"--cache-dir={settings.cache_dir}: {error.strerror}; name a folder that can be written"
        ) from error
    # Compiled files are trusted: in a shared temporary folder somebody else's are not.
    if settings.cache_dir == default_cache_dir() and owner != os.geteuid():
        raise OptionError(
            f"--cache-dir={settings.cache_dir}: belongs to another user; name a folder of your own"
        )


def _asked(arguments: Sequence[str], options: Sequence[Option]) -> bool:
    """Whether only help or the version is wanted; prints it."""
    if any(one in HELP_FLAGS for one in arguments):
        print(help_text(options, prog=PROG, summary=SUMMARY))
        return True
    if any(one in VERSION_FLAGS for one in arguments):
        print(f"{PROG} {installed_version()}")
        return True
    return False


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    print(f"{PROG}: error: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
