"""gunicorn's options: one that it does not know ends the start, rather than being left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from gunicorn.config import make_settings  # type: ignore[import-untyped]

from historyserver.settings import read_settings
from historyserver.web.app import WebApp
from historyserver.web.serving import Server


def no_app() -> WebApp:
    """Never called: nothing is served."""
    raise AssertionError


def without(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of gunicorn, which lacks an option."""

    def known(ignore: object = None) -> dict[str, object]:
        return {name: value for name, value in make_settings(ignore).items() if name != option}

    monkeypatch.setattr("gunicorn.config.make_settings", known)


def server_of(folder: Path) -> Server:
    return Server(
        read_settings(["--storage-backend=local", f"--storage-local-dir={folder}"], {}), no_app
    )


@pytest.mark.parametrize("option", ["limit_request_field_size", "graceful_timeout"])
def test_an_option_that_gunicorn_lacks_ends_the_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
) -> None:
    """A limit that is silently not set would be found out by an attacker."""
    without(option, monkeypatch)
    with pytest.raises(SystemExit, match="1"):
        server_of(tmp_path)
    assert option in capsys.readouterr().err


def test_versions_without_a_control_socket_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They need not be told to open none."""
    without("control_socket_disable", monkeypatch)
    assert server_of(tmp_path).cfg.threads == 32
