"""The difference of two pods, and the check that stops a wrong one."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webhook.samples import SETTINGS, facts, sample
from webhook.decisions import Reason
from webhook.patches import PatchRefusedError, patched, patching
from webhook.patches.operations import operations
from webhook.patches.self_check import faults

JSON = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b/c", "~d", "", "~1"]), inner, max_size=4)
    ),
    max_leaves=20,
)
OBJECT = st.dictionaries(st.sampled_from(["a", "b/c", "~d", ""]), JSON, max_size=4)


@given(before=OBJECT, after=OBJECT)
def test_any_two_documents_are_joined(before: dict[str, Any], after: dict[str, Any]) -> None:
    """An independent implementation applies it; also where lists shrink or change their kind."""
    steps = operations(before, after)
    applied = jsonpatch.apply_patch(copy.deepcopy(before), json.dumps(steps))
    assert json.dumps(applied, sort_keys=True) == json.dumps(after, sort_keys=True)
    assert operations(before, copy.deepcopy(before)) == []


def test_new_entries_need_no_index() -> None:
    """And names with slashes and tildes are escaped."""
    before = {"list": [{"name": "a"}], "map": {"x/y": "1"}}
    after = {"list": [{"name": "a"}, {"name": "b"}], "map": {"x/y": "2", "~z": "3"}, "new": [1]}
    assert operations(before, after) == [
        {"op": "add", "path": "/list/-", "value": {"name": "b"}},
        {"op": "replace", "path": "/map/x~1y", "value": "2"},
        {"op": "add", "path": "/map/~0z", "value": "3"},
        {"op": "add", "path": "/new", "value": [1]},
    ]


def test_shared_parts_are_not_looked_at() -> None:
    """What the builders did not change is the same object; that keeps a review cheap."""

    class Untouchable(list[Any]):
        def __iter__(self) -> Any:
            raise AssertionError("looked at")

    part = Untouchable([1])
    assert operations({"a": part, "b": 1}, {"a": part, "b": 2}) == [
        {"op": "replace", "path": "/b", "value": 2}
    ]


def changed(change: Any) -> list[str]:
    """The faults of a right patch after one more change."""
    pod = sample("kuberay-1.6-head-autoscaler-v2")
    after = copy.deepcopy(patched(pod, facts=facts(), settings=SETTINGS).pod)
    assert faults(pod, after, operations=operations(pod, after), ours="rayhs-collector") == []
    change(after["spec"])
    return faults(pod, after, operations=operations(pod, after), ours="rayhs-collector")


def swap(spec: dict[str, Any]) -> None:
    """Another container becomes the first."""
    spec["containers"] = spec["containers"][::-1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec["containers"][0].update(image="x"), "image of the first container"),
        (lambda spec: spec["containers"][0].pop("resources"), "resources of the first container"),
        (swap, "name of the first container"),
        (lambda spec: spec["containers"].append(spec["initContainers"][0]), "same name"),
        (lambda spec: spec["volumes"].append(spec["volumes"][0]), "same name"),
        (lambda spec: spec["volumes"].pop(), "not there"),
        (
            lambda spec: spec["initContainers"][0]["volumeMounts"].append(
                {"name": "ray-logs", "mountPath": "/storage"}
            ),
            "two mounts",
        ),
        (lambda spec: spec.update(hostNetwork=True), "/spec/hostNetwork is not ours"),
        (
            lambda spec: spec["containers"][1].update(image="x"),
            "/spec/containers/1/image is not ours",
        ),
        (lambda spec: spec.pop("tolerations"), "/spec/tolerations is not ours"),
    ],
)
def test_wrong_patches_are_noticed(change: Any, said: str) -> None:
    """Each kind of harm that an error in a rule could do."""
    assert any(said in fault for fault in changed(change))


def test_wrong_patch_leaves_the_pod_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod is refused to the patch, with the reason, and stays as it came."""
    monkeypatch.setattr(patching, "account_fields", lambda name: {"hostNetwork": True})
    with pytest.raises(PatchRefusedError, match="hostNetwork") as refused:
        patched(sample("kuberay-1.6-head"), facts=facts(), settings=SETTINGS)
    assert refused.value.reason is Reason.SELF_CHECK_FAILED
