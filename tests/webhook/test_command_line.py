"""The program: verbs, exit codes, and manifests without a cluster."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.webhook import review_kit
from webhook.cli import main
from webhook.settings_table import rows

IMAGE = "--collector-image=c:1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a RayCluster and something else, and a pod."""
    template = {"spec": {"containers": [{"name": "ray-head", "image": "rayproject/ray:2.55.1"}]}}
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "nightly"},
        "spec": {"headGroupSpec": {"rayStartParams": {}, "template": template}},
    }
    other = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"script": "one\ntwo\n", "on": "yes"}}
    path = tmp_path / "manifests.yaml"
    path.write_text(yaml.safe_dump_all([cluster, other, review_kit.pod()]))
    return path


def _documents(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


def test_inject_prints_what_the_webhook_would_make(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All documents, those without pods as they were; what was done on standard error."""
    assert main(["inject", "-f", str(file), IMAGE], {}) == 0
    printed = capsys.readouterr()
    before, after = _documents(file.read_text()), _documents(printed.out)
    assert after[1] == before[1]
    head = after[0]["spec"]["headGroupSpec"]["template"]["spec"]
    assert [one["name"] for one in head["containers"]] == ["ray-head"]
    assert [one["name"] for one in head["initContainers"]] == ["rayhs-collector"]
    assert after[2]["spec"]["initContainers"][-1]["image"] == "c:1"
    assert "RayCluster nightly spec.headGroupSpec.template gets a collector" in printed.err
    assert "Pod" in printed.err


def test_injecting_twice_changes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output may be stored and injected again."""
    main(["inject", f"--filename={file}", IMAGE, "--native-sidecars=false"], {})
    first = capsys.readouterr().out
    assert "initContainers" not in first.split("ConfigMap")[0]
    file.write_text(first)
    assert main(["inject", str(file), IMAGE, "--native-sidecars=false"], {}) == 0
    assert capsys.readouterr().out == first


def test_the_standard_input_is_a_file(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `kubectl get pod -o yaml | webhook explain -`; JSON is YAML too."""
    made = json.dumps(review_kit.pod())
    monkeypatch.setattr("sys.stdin", io.StringIO(made))
    assert main(["inject", "-f", "-", IMAGE], {}) == 0
    assert "rayhs-collector" in capsys.readouterr().out
    del file


def test_explain_answers_question_by_question(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No image is needed; the namespace is labelled unless said otherwise."""
    assert main(["explain", str(file)], {}) == 0
    text = capsys.readouterr().out
    assert "gets a collector (namespace_label" in text
    assert "added as a native sidecar" in text
    assert main(["explain", str(file), "--labelled=false"], {}) == 0
    assert "gets no collector (not_opted_in" in capsys.readouterr().out


def test_explain_for_programs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object per line and pod."""
    assert main(["explain", str(file), "--json", "--namespace", "kube-system"], {}) == 0
    cluster, pod = map(json.loads, capsys.readouterr().out.splitlines())
    assert (cluster["kind"], cluster["inject"], cluster["reason"]) == (
        "RayCluster",
        False,
        "excluded_namespace",
    )
    assert (pod["kind"], pod["inject"]) == ("Pod", True)
    assert pod["checks"][0]["question"]


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["inject", IMAGE], 2, "name a file"),
        (["inject", "-f"], 2, "needs a value"),
        (["inject", "-f", "FILE"], 2, "collector.image: not set"),
        (["inject", "-f", "FILE", IMAGE, "--labelled=maybe"], 2, "must be true or false"),
        (["inject", "-f", "FILE", IMAGE, "--nosuch=1"], 2, "--nosuch: unknown option"),
        (["explain", "/nonexistent/file"], 1, "/nonexistent/file: No such file or directory"),
        (["explain", "BROKEN"], 1, "not YAML"),
        (["explain", "BINARY"], 1, "not a text"),
        (["explain", "EMPTY"], 1, "no pod"),
        (["serve", IMAGE, "--kubernetes-kubeconfig=/nonexistent/file"], 2, "/nonexistent/file"),
        (["nosuch"], 2, "no such command"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    argv: list[str], status: int, said: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 for what was asked, 1 for what failed."""
    contents = {"BROKEN": b"a: [", "BINARY": b"\xff\xfe\xff", "EMPTY": b"# nothing\n"}
    for name, content in contents.items():
        (file.parent / name).write_bytes(content)
    places = {"FILE": str(file), **{name: str(file.parent / name) for name in contents}}
    assert main([places.get(one, one) for one in argv], {}) == status
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("webhook: error: ")
    assert error.count("\n") == 1


def test_help_names_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """And the program says its version."""
    assert main(["--help"], {}) == 0
    text = capsys.readouterr().out
    for row in rows():
        assert f"--{row.flag}  ({row.env})" in text
    assert main([], {}) == 2
    assert main(["version"], {}) == 0
    assert "webhook " in capsys.readouterr().out
