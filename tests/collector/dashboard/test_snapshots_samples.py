"""Real answers about Serve, Data and Train of Ray 2.55.1, as the collector judges them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.dashboard.endpoints import Endpoint, Seen, datasets, endpoints_for
from collector.dashboard.judging import Rejection, usable, worse
from storage.endpoints import SERVE, TRAIN

FOLDER = Path(__file__).parents[2] / "samples" / "ray-api"
EVERY = {each.name: each for each in endpoints_for(Seen(serve=True, train=True))}
SAMPLES = {
    "serve_applications": EVERY[SERVE],
    "data_datasets": datasets("02000000"),
    "train_runs_v1": EVERY[TRAIN],
}


@pytest.mark.parametrize(("sample", "endpoint"), SAMPLES.items())
def test_real_answer_is_not_emptied_by_a_dying_cluster(sample: str, endpoint: Endpoint) -> None:
    """The endpoint knows where its things are listed: an empty list is worse than a real one."""
    body = json.loads((FOLDER / f"{sample}.json").read_text())["body"]
    (key,) = endpoint.items
    empty = body | {key: type(body[key])()}
    assert usable(200, json.dumps(body).encode()) is None
    assert worse(endpoint, None, body, final=False, rejected_before=0) is None
    assert worse(endpoint, body, body, final=True, rejected_before=0) is None
    fault = worse(endpoint, body, empty, final=True, rejected_before=9)
    assert fault is Rejection.EMPTIER
