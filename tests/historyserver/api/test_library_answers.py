"""Serve, Data and Train: real answers of Ray 2.55.1, of what works and of what fails."""

from __future__ import annotations

import pytest

from storage.backend import Backend
from tests.historyserver.asking import Asker
from tests.historyserver.hand_made import HandMade, app_of
from tests.historyserver.queries.ray_answers import live

ANSWERS = {
    "serve_applications": "/api/serve/applications/",
    "data_datasets": "/api/data/datasets/02000000",
    "train_runs_v1": "/api/train/v2/runs/v1",
}


@pytest.mark.parametrize("sample", ANSWERS)
def test_real_answer_comes_back_as_it_was(
    backend: Backend, hand_made: HandMade, sample: str
) -> None:
    """Field for field, through storage and compiling's split."""
    path = ANSWERS[sample]
    made = hand_made.snapshot(path, live(sample))
    assert Asker(app_of(backend, made.opened())).json(path) == live(sample)


def test_samples_have_what_works_and_what_fails() -> None:
    """So that the tests that use them see both."""
    applications = live("serve_applications")["applications"].values()
    assert {each["status"] for each in applications} == {"RUNNING", "DEPLOY_FAILED"}
    datasets = live("data_datasets")["datasets"]
    assert {each["state"] for each in datasets} == {"FINISHED", "FAILED"}
    assert {each["status"] for each in live("train_runs_v1")["train_runs"]} == {
        "FINISHED",
        "ERRORED",
    }
