"""Options: where a value may come from, what is refused and how, and what the help says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.program.option_values import (
    boolean,
    choice,
    dns1123,
    duration_s,
    integer,
    port,
    size_bytes,
    text,
)
from storage.program.options import Option, OptionError, help_text, load, markdown

OPTIONS = (
    Option(
        name="role",
        default=None,
        help="Which node.",
        parse=text,
        env=("RAY_ROLE",),
        required=True,
        choices=("Head", "Worker"),
    ),
    Option(
        name="root-dir",
        default="",
        help="A | prefix.",
        parse=text,
        env=("ROOT_DIR", "OLD_ROOT_DIR"),
        aliases=("ray-root-dir",),
    ),
    Option(name="events-port", default="8084", help="Port.", parse=port, env=("EVENTS_PORT",)),
    Option(name="compress", default="false", help="Pack.", parse=boolean),
    Option(
        name="token", default=None, help="Secret.", parse=integer(), secret=True, env=("TOKEN",)
    ),
)


def _load(*argv: str, **env: str) -> dict[str, Any]:
    return load(OPTIONS, argv=["--role=Head", *argv], env=env)


def test_defaults() -> None:
    """Every option is in the result, parsed."""
    assert _load() == {
        "role": "Head",
        "root_dir": "",
        "events_port": 8084,
        "compress": False,
        "token": None,
    }


@pytest.mark.parametrize(
    "argv",
    [["--root-dir=a=b"], ["--root-dir", "a=b"], ["--ray-root-dir", "a=b"], ["-ray-root-dir=a=b"]],
)
def test_both_forms_and_all_names(argv: Sequence[str]) -> None:
    """With `=` or as the next word, old names, one dash as Go's programs take it."""
    assert _load(*argv)["root_dir"] == "a=b"


def test_a_switch_needs_no_value() -> None:
    """And never takes the next word for one."""
    assert _load("--compress")["compress"] is True
    assert _load("--compress=false")["compress"] is False
    with pytest.raises(OptionError, match="true: unexpected argument"):
        _load("--compress", "true")


def test_flags_win_over_the_environment() -> None:
    """Which wins over the default; empty environment values are none."""
    assert _load("--events-port=1", EVENTS_PORT="2")["events_port"] == 1
    assert _load(EVENTS_PORT="2")["events_port"] == 2
    assert _load(EVENTS_PORT="")["events_port"] == 8084
    assert _load(UNKNOWN="x") == _load()


def test_one_value_under_two_names_is_fine() -> None:
    """As manifests that serve two releases have it."""
    assert _load("--root-dir=a", "--ray-root-dir=a")["root_dir"] == "a"
    assert _load(ROOT_DIR="a", OLD_ROOT_DIR="a")["root_dir"] == "a"


@pytest.mark.parametrize(
    ("argv", "env", "message"),
    [
        (["--root-dir=a", "--ray-root-dir=b"], {}, "--root-dir=a and --ray-root-dir=b contradict"),
        (["--root-dir=a", "--root-dir=b"], {}, "contradict"),
        ([], {"ROOT_DIR": "a", "OLD_ROOT_DIR": "b"}, "ROOT_DIR=a and OLD_ROOT_DIR=b contradict"),
        (["--event-port=1"], {}, "--event-port: unknown option; did you mean --events-port?"),
        (["--zzz"], {}, "--zzz: unknown option; --help lists them"),
        (["stray"], {}, "stray: unexpected argument"),
        (["--"], {}, "--: unexpected argument"),
        (["--events-port"], {}, "--events-port: needs a value"),
        (["--events-port=http"], {}, "--events-port=http: must be a port from 0 to 65535"),
        ([], {"EVENTS_PORT": "70000"}, "EVENTS_PORT=70000: must be a port"),
        (["--role=chief"], {}, "--role=chief: must be one of Head, Worker"),
        (["--compress=maybe"], {}, "--compress=maybe: must be true or false"),
    ],
)
def test_what_is_wrong_is_one_line(
    argv: Sequence[str], env: Mapping[str, str], message: str
) -> None:
    """What, where, and what to do."""
    with pytest.raises(OptionError) as caught:
        load(OPTIONS, argv=argv, env={"RAY_ROLE": "Head", **env})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_required_option_says_how_to_set_it() -> None:
    """Flag and environment name."""
    with pytest.raises(OptionError, match=r"--role: not set; give --role=VALUE or set RAY_ROLE"):
        load(OPTIONS, argv=[], env={})
    assert load(OPTIONS, argv=[], env={"RAY_ROLE": "wOrKeR"})["role"] == "Worker"


def test_secrets_are_in_no_message() -> None:
    """Not when bad, not when contradictory."""
    for argv in (["--token=s3cret"], ["--token=123456", "--token=654321"]):
        with pytest.raises(OptionError) as caught:
            _load(*argv)
        assert "--token" in str(caught.value)
        for word in ("s3cret", "123456", "654321"):
            assert word not in str(caught.value)


@given(argv=st.lists(st.text(max_size=20), max_size=3))
def test_any_arguments_give_one_line_or_values(argv: list[str]) -> None:
    """Never another exception, never a control character to the terminal."""
    message = "fine"
    try:
        _load(*argv)
    except OptionError as error:
        message = str(error)
    assert message.isprintable()


def test_help_names_everything() -> None:
    """Names, defaults, environment, choices."""
    shown = help_text(OPTIONS, prog="collector", summary="Collects.")
    for word in ("usage: collector", "--root-dir, --ray-root-dir", "Default: 8084.", "RAY_ROLE"):
        assert word in shown
    assert "One of: Head, Worker." in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_markdown_is_one_row_per_option() -> None:
    """With cells that stay cells."""
    rows = markdown(OPTIONS).splitlines()
    assert len(rows) == 2 + len(OPTIONS)
    assert rows[2] == "| `--role` | `RAY_ROLE` | required | Which node. One of `Head`, `Worker`. |"
    assert rows[3].startswith("| `--root-dir`<br>`--ray-root-dir` | `ROOT_DIR`<br>`OLD_ROOT_DIR` |")
    assert "A \\| prefix." in rows[3]
    assert "`8084`" in rows[4]


@pytest.mark.parametrize(
    ("parse", "written", "value"),
    [
        (boolean, "TRUE", True),
        (boolean, " 0 ", False),
        (duration_s, "250ms", 0.25),
        (duration_s, "30s", 30.0),
        (duration_s, "5m", 300.0),
        (duration_s, "1h30m", 5400.0),
        (duration_s, "1.5h", 5400.0),
        (duration_s, "90", 90.0),
        (duration_s, "0", 0.0),
        (size_bytes, "0", 0),
        (size_bytes, "123", 123),
        (size_bytes, "1k", 1000),
        (size_bytes, "1Ki", 1024),
        (size_bytes, "100Mi", 100 * 2**20),
        (size_bytes, "2Gi", 2 * 2**30),
        (size_bytes, "1G", 10**9),
        (size_bytes, "1.5GiB", 3 * 2**29),
        (integer(1, 5), " 5 ", 5),
        (integer(), "-3", -3),
        (port, "0", 0),
        (dns1123, "ray-1.default", "ray-1.default"),
        (choice("Head", "Worker"), "head", "Head"),
        (text, "  x y ", "x y"),
    ],
)
def test_values(parse: Callable[[str], object], written: str, value: object) -> None:
    """As people and manifests write them."""
    assert parse(written) == value


@pytest.mark.parametrize(
    ("parse", "written"),
    [
        *[(boolean, bad) for bad in ("", "2", "truee")],
        (duration_s, "999999999999d"),
        *[(duration_s, bad) for bad in ("", "s", "5x", "-5s", "5 m 3", "1e9", "9" * 400, "٣s")],
        *[(size_bytes, bad) for bad in ("", "Gi", "-1", "1Xi", "1 2", "9" * 19 + "Ti", "inf")],
        *[(integer(1, 5), bad) for bad in ("", "0", "6", "1.0", "x", "9" * 5000, "1_0")],
        *[(port, bad) for bad in ("", "-1", "65536")],
        *[(dns1123, bad) for bad in ("", "A", "a_b", "-a", "a-", "a..b", "a" * 254, "a\nb")],
        (choice("a"), "b"),
    ],
)
def test_bad_values(parse: Callable[[str], object], written: str) -> None:
    """Refused with words that complete `FLAG=VALUE: ...`."""
    with pytest.raises(ValueError, match=r"^(must|is)"):
        parse(written)
