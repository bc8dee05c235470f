"""Ray's built dashboard under a session's prefix, and the copying of it."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from urllib.parse import urljoin

import pytest

from historyserver.dashboard.fetching import FetchError, fetch_ui
from historyserver.dashboard.files import DashboardFiles, installed_build
from storage.backend import Backend
from tests.historyserver.asking import Asker
from tests.historyserver.hand_made import PREFIX, SESSION, HandMade, app_of

INDEX = '<!doctype html><script defer="defer" src="./static/js/main.1a.js"></script>'


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A build as Ray's is laid out, small."""
    folder = tmp_path / "wheel" / "ray" / "dashboard" / "client" / "build"
    (folder / "static" / "js").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "favicon.ico").write_bytes(b"icon")
    (folder / "static/js/main.1a.js").write_text("let x = 1;\n" * 500)
    (folder / "static/js/main.1a.js.map").write_text("{}")
    (folder / "static/js/main.1a.js.LICENSE.txt").write_text("MIT and others")
    return folder


@pytest.fixture
def ask(backend: Backend, hand_made: HandMade, build: Path) -> Asker:
    """A client of a server with that build."""
    return Asker(app_of(backend, hand_made.opened(), ui=build))


def test_the_page_and_its_files_are_under_the_session_s_prefix(ask: Asker) -> None:
    """Unchanged, with a policy that the stock build works under."""
    page = ask.session("/")
    assert page.get_data(as_text=True) == INDEX
    assert page.headers["Cache-Control"] == "no-cache"
    assert "style-src 'self' 'unsafe-inline'" in page.headers["Content-Security-Policy"]
    assert "'unsafe-inline'" not in page.headers["Content-Security-Policy"].split("style-src")[0]
    script = ask.session("/static/js/main.1a.js", headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(script.data).startswith(b"let x")
    assert script.content_type.startswith("text/javascript")
    assert "immutable" in script.headers["Cache-Control"]
    assert ask.session("/favicon.ico").data == b"icon"


def test_files_are_not_sent_again(ask: Asker) -> None:
    """By their ETag."""
    etag = ask.session("/").headers["ETag"]
    again = ask.session("/", headers={"If-None-Match": etag})
    assert (again.status_code, again.data) == (304, b"")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (f"/s/ml/raycluster/v170/{SESSION}", f"../../../../s/ml/raycluster/v170/{SESSION}/"),
        ("/s/ml/raycluster/v170/latest/", f"../../../../../s/ml/raycluster/v170/{SESSION}/"),
        ("/s/ml/raycluster/v170/latest", f"../../../../s/ml/raycluster/v170/{SESSION}/"),
        ("/s/ml/raycluster/v170/", f"../../../../s/ml/raycluster/v170/{SESSION}/"),
        ("/s/ml/raycluster/v170", f"../../../s/ml/raycluster/v170/{SESSION}/"),
    ],
)
def test_other_forms_of_the_address_go_to_the_one_that_lasts(
    ask: Asker, path: str, target: str
) -> None:
    """A shared link must mean the same session tomorrow; hashes survive a redirect."""
    response = ask.get(path)
    assert response.status_code == 302
    assert response.headers["Location"] == target
    assert response.headers["Cache-Control"] == "no-store"
    assert ask.get(urljoin(path, target)).get_data(as_text=True) == INDEX


def test_the_api_works_under_latest_without_a_redirect(ask: Asker) -> None:
    """For programs."""
    response = ask.get("/s/ml/raycluster/v170/latest/api/version")
    assert response.get_json()["session_name"] == SESSION


@pytest.mark.parametrize(
    "path",
    ["/../secret", "/%2e%2e/secret", "/static/..%2f..%2fsecret", "/static/%00", "/link", "/static/",
     "/static/js", "/nope.js"],
)  # fmt: skip
def test_nothing_outside_of_the_build_is_served(
    ask: Asker, build: Path, tmp_path: Path, path: str
) -> None:
    """No dots, no NUL, no symlinks that lead away, no folders."""
    (build.parent / "secret").write_text("secret")
    (build / "link").symlink_to(build.parent / "secret")
    response = ask.session(path)
    assert response.status_code == 404
    assert b"secret" not in response.data


def test_the_build_that_fits_the_session_s_ray_is_chosen(tmp_path: Path) -> None:
    """The same version, else the same minor, else the newest."""
    for version in ("2.53.0", "2.55.0", "2.55.1", "2.60.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").write_text(version)
    files = DashboardFiles(tmp_path)

    def chosen(version: str) -> str:
        page = files.index(version, compressed=False)
        assert page is not None
        return page.body.decode()

    assert chosen("2.55.0") == "2.55.0"
    assert chosen("2.55.9") == "2.55.1"
    assert chosen("2.9.0") == "2.60.0"
    assert chosen("") == "2.60.0"


def test_a_folder_without_a_build_uses_that_of_an_installed_ray(tmp_path: Path) -> None:
    """So that a developer needs no copy."""
    assert installed_build() is not None
    page = DashboardFiles(tmp_path).index("2.55.1", compressed=False)
    assert page is not None
    assert b"<title>Ray Dashboard</title>" in page.body


def test_fetching_copies_all_but_source_maps(build: Path, tmp_path: Path) -> None:
    """From a folder; licence files come along."""
    count = fetch_ui(str(tmp_path / "wheel"), tmp_path / "ui")
    names = sorted(
        file.relative_to(tmp_path / "ui").as_posix()
        for file in (tmp_path / "ui").rglob("*")
        if file.is_file()
    )
    assert names == [
        "favicon.ico",
        "index.html",
        "static/js/main.1a.js",
        "static/js/main.1a.js.LICENSE.txt",
    ]
    assert count == len(names)


def test_fetching_from_a_wheel_keeps_ray_s_licence(build: Path, tmp_path: Path) -> None:
    """Apache-2.0 wants it beside the files."""
    wheel = tmp_path / "ray-2.55.1-cp311-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in build.rglob("*"):
            archive.write(file, file.relative_to(tmp_path / "wheel"))
        archive.writestr("ray-2.55.1.dist-info/licenses/LICENSE", "Apache License")
        archive.writestr("ray/dashboard/client/build/../../../../evil", "x")
        archive.writestr("ray/other.py", "x")
    fetch_ui(str(wheel), tmp_path / "ui")
    assert (tmp_path / "ui" / "LICENSE-ray.txt").read_text() == "Apache License"
    assert (tmp_path / "ui" / "index.html").read_text() == INDEX
    assert not list(tmp_path.rglob("evil"))
    assert not list((tmp_path / "ui").rglob("*.map"))


def test_fetching_from_the_installed_ray_gives_its_dashboard(tmp_path: Path) -> None:
    """What the demo does."""
    fetch_ui("installed", tmp_path / "ui")
    assert (tmp_path / "ui" / "index.html").is_file()
    assert list((tmp_path / "ui" / "static" / "js").glob("main.*.js.LICENSE.txt"))
    assert (tmp_path / "ui" / "LICENSE-ray.txt").read_text().strip()


@pytest.mark.parametrize("source", ["nothing-there", "empty", "file"])
def test_fetching_from_something_else_is_a_clear_error(tmp_path: Path, source: str) -> None:
    """One line for the user."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(FetchError, match=source):
        fetch_ui(str(tmp_path / source), tmp_path / "ui")


def test_a_server_without_a_build_says_how_to_get_one(
    backend: Backend, hand_made: HandMade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API goes on working."""
    monkeypatch.setattr("historyserver.dashboard.files.installed_build", lambda: None)
    ask = Asker(app_of(backend, hand_made.opened(), ui=tmp_path / "none"))
    page = ask.session("/")
    assert page.status_code == 503
    assert "fetch-ui" in page.get_data(as_text=True)
    assert ask.get(PREFIX + "/timezone").status_code == 200
