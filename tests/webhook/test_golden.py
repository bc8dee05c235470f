"""Every sample, for native and classic sidecars, against its golden file and Kubernetes' schemas."""

from __future__ import annotations

import json

import jsonpatch
import kubernetes_validate
import pytest

from tests.webhook import golden
from tests.webhook.defaults import defaulted
from tests.webhook.samples import CLUSTER, LABELLED, MODES, NAMES, SETTINGS, facts, sample
from webhook.decisions import decide
from webhook.patches import patched

INJECTED = [
    name
    for name in NAMES
    if decide(sample(name), namespace=LABELLED, cluster=CLUSTER, settings=SETTINGS).inject
]
FIRST_VERSION = {"classic": "1.25", "native": "1.29"}
UNKNOWN_TO_SCHEMAS = "user-guaranteed-gpu-worker"
"""Has a field that no Kubernetes knows."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_outcome_is_the_golden_one(name: str, mode: str) -> None:
    """Decision, warnings and every operation; see `tests.webhook.golden` for how to renew."""
    assert golden.rendered(name, mode) == golden.path_of(name, mode).read_text()


def test_no_golden_file_is_left_over() -> None:
    """Each belongs to a sample."""
    wanted = {golden.path_of(name, mode) for name in NAMES for mode in MODES}
    assert set(golden.FOLDER.glob("*")) == wanted


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", INJECTED)
def test_operations_make_the_patched_pod(name: str, mode: str) -> None:
    """An independent implementation of RFC 6902 comes to the same pod; ours is not changed."""
    pod = sample(name)
    result = patched(pod, facts=facts(mode), settings=SETTINGS)
    assert pod == sample(name)
    assert jsonpatch.apply_patch(pod, json.dumps(result.operations)) == result.pod


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", INJECTED)
def test_second_pass_adds_nothing(name: str, mode: str) -> None:
    """Also after the API server has filled its defaults in, and if settings or kubelets changed."""
    once = defaulted(patched(sample(name), facts=facts(mode), settings=SETTINGS).pod)
    assert decide(once, namespace=LABELLED, cluster=CLUSTER, settings=SETTINGS).inject
    for other in MODES:
        again = patched(once, facts=facts(other), settings=SETTINGS)
        assert (again.operations, again.added, again.mode) == ([], (), mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in INJECTED if name != UNKNOWN_TO_SCHEMAS])
def test_patched_pod_fits_the_schemas(name: str, mode: str) -> None:
    """Strictly: no field that Kubernetes does not know, from the oldest to the newest version."""
    pod = patched(sample(name), facts=facts(mode), settings=SETTINGS).pod
    newest = ".".join(kubernetes_validate.latest_version().split(".")[:2])
    for version in (FIRST_VERSION[mode], newest):
        kubernetes_validate.validate(pod, version, strict=True)


def test_schemas_refuse_what_they_must() -> None:
    """The check above can fail: Kubernetes 1.25 knows no native sidecar."""
    pod = patched(sample("kuberay-1.6-worker"), facts=facts("native"), settings=SETTINGS).pod
    with pytest.raises(kubernetes_validate.ValidationError, match="restartPolicy"):
        kubernetes_validate.validate(pod, "1.25", strict=True)
