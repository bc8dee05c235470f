"""Settings and the command line: KubeRay's names, refusals, exit codes."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path

import pytest

from historyserver.cli import main
from historyserver.sessions import BrokenReason, SessionBrokenError
from historyserver.settings import read_settings
from storage.program.options import OptionError
from tests.harness.compiled_samples import SESSIONS, kuberay_samples

NO_SESSION = "session_2026-11-30_21-46-10_843035_1"


def flags(tmp_path: Path, *more: str) -> list[str]:
    """The least that starts a server."""
    return ["--storage-backend=local", f"--storage-local-dir={tmp_path}", *more]


def test_the_default_is_safe(tmp_path: Path) -> None:
    """Loopback only, port 8080, one process."""
    settings = read_settings(flags(tmp_path), {})
    assert (settings.listen_address, settings.port) == ("127.0.0.1", 8080)
    assert settings.workers == 1
    assert settings.dashboard_dir == Path("/dashboard")


def test_the_gke_guide_s_flags_and_kuberay_s_names_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Old flag names are aliases; settings without a meaning are accepted and named in the log."""
    argv = [
        "--runtime-class-name=local",
        "--ray-root-dir=log",
        "--runtime-class-config-path=/x.json",
        "--kubeconfigs=/k",
        "--use-kubernetes-proxy",
        "--kube-api-qps=50",
        "--session-cache-size",
        "10",
        "--dashboard-dir=/ui",
    ]
    with caplog.at_level(logging.WARNING):
        settings = read_settings(argv, {"STORAGE_LOCAL_DIR": str(tmp_path)})
    assert settings.storage["storage_root_dir"] == "log"
    assert settings.dashboard_dir == Path("/ui")
    told = {vars(record).get("setting") for record in caplog.records}
    assert told >= {"storage-backend-config-path", "kubeconfigs", "kube-api-qps"}


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.1.2.3", "192.168.0.7"])
def test_an_address_that_others_reach_needs_a_word(tmp_path: Path, address: str) -> None:
    """All sessions of everybody would be readable by the network."""
    with pytest.raises(OptionError, match="--auth=none"):
        read_settings(flags(tmp_path, f"--listen-address={address}"), {})
    settings = read_settings(flags(tmp_path, f"--listen-address={address}", "--auth=none"), {})
    assert settings.listen_address == address


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_none(tmp_path: Path, address: str) -> None:
    """Only this machine's users reach it."""
    assert read_settings(flags(tmp_path, f"--listen-address={address}"), {}).auth is None


@pytest.mark.parametrize(
    "argv",
    [
        ["--no-such-flag"],
        ["--port=70000"],
        ["--port=x"],
        ["--listen-address=example.org"],
        ["--listen-address=0.0.0.0"],
        ["--auth=basic"],
        ["--cache-size=lots"],
        ["--storage-backend=s3"],
        ["--storage-backend=nope"],
        ["--storage-local-dir=/does/not/exist"],
        ["--storage-root-dir=a", "--ray-root-dir=b"],
        ["nonsense"],
        ["fetch-ui"],
        ["compile"],
        ["compile", "only/three/parts"],
        ["compile", "ml/no such kind/none/session_2026-11-30_21-46-10_843035_1"],
        ["compile", f"ml/raycluster/none/{NO_SESSION}", "--cache-dir=/dev/null"],
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_2(
    tmp_path: Path, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What, where, and what to do."""
    given = {flag.partition("=")[0] for flag in argv}
    base = [one for one in flags(tmp_path) if one.partition("=")[0] not in given]
    if argv[0] == "fetch-ui":
        base = []
    commands = [one for one in argv if not one.startswith("-")]
    rest = [one for one in argv if one.startswith("-")]
    assert main([*commands, *base, *rest], {}) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("historyserver: error: ")
    assert captured.err.count("\n") == 1


def test_a_wheel_without_a_dashboard_is_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failure of the work, not of the command line."""
    (tmp_path / "empty").mkdir()
    assert main(["fetch-ui", f"--from={tmp_path / 'empty'}", f"--to={tmp_path / 'ui'}"], {}) == 1
    assert "holds no built dashboard" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["serve"], ["fetch-ui"], ["compile"]])
def test_help_and_version_need_no_settings(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """And end with 0."""
    assert main([*command, "--help"], {}) == 0
    assert "usage: historyserver" in capsys.readouterr().out
    assert main([*command, "--version"], {}) == 0
    assert capsys.readouterr().out.startswith("historyserver ")


def test_compiling_ahead_stores_what_a_server_will_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line of JSON; the compiled file is in storage for every replica."""
    storage = tmp_path / "tree"
    shutil.copytree(kuberay_samples() / "tree", storage)
    argv = [
        "compile",
        f"ml/raycluster/v170/{SESSIONS['v170']}",
        f"--cache-dir={tmp_path / 'cache'}",
    ]
    assert main([*argv, *flags(storage)], {}) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"]["tasks"] >= 13
    assert list((storage / "history").rglob("*.sqlite.zst"))


def test_compiling_what_is_not_stored_is_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line is right, the work cannot be done."""
    argv = ["compile", f"ml/raycluster/none/{NO_SESSION}", f"--cache-dir={tmp_path / 'cache'}"]
    assert main([*argv, *flags(tmp_path)], {}) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"historyserver: error: no session {NO_SESSION} of ml/raycluster/none is stored\n"
    )


@pytest.mark.parametrize("reason", BrokenReason)
def test_compiling_a_broken_session_is_one_line_and_exit_1(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    reason: BrokenReason,
) -> None:
    """Whatever it is broken by; no stack trace."""

    def broken(*_: object) -> None:
        raise SessionBrokenError(reason, "it is broken")

    monkeypatch.setattr("historyserver.sessions.preparing.locate", broken)
    argv = ["compile", f"ml/raycluster/v170/{SESSIONS['v170']}", "--log-level=error"]
    argv += [f"--cache-dir={tmp_path / 'cache'}"]
    assert main([*argv, *flags(kuberay_samples() / "tree")], {}) == 1
    assert capsys.readouterr().err == "historyserver: error: it is broken\n"


def test_compiling_logs_as_the_settings_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, for the report is on stdout."""
    storage = tmp_path / "tree"
    shutil.copytree(kuberay_samples() / "tree", storage)
    argv = ["compile", f"ml/raycluster/v170/{SESSIONS['v170']}", "--log-format=json"]
    argv += [f"--cache-dir={tmp_path / 'cache'}", *flags(storage)]
    assert main(argv, {}) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert "compiled" in [line["message"] for line in lines]
    assert main([*argv, "--log-level=error"], {}) == 0
    assert capsys.readouterr().err == ""


def test_a_cache_of_another_user_is_not_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled files are trusted, and the system's temporary folder is everybody's."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    user = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: user + 1)
    assert main(flags(tmp_path), {}) == 2
    assert "belongs to another user" in capsys.readouterr().err
