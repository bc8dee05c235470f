"""A pod with requests and limits as a whole: the collector's come on top of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webhook import review_kit
from tests.webhook.admission_rig import settings
from webhook.decisions import Reason
from webhook.facts import ClusterFacts, PodFacts
from webhook.patches import Patched, PatchRefusedError, patched

FACTS = PodFacts("ml", ClusterFacts("ml", "nightly", "u1"), native_sidecars=True)
OWN = {
    "requests": {"cpu": "50m", "memory": "64Mi"},
    "limits": {"cpu": "500m", "memory": "256Mi"},
}


def patch(whole: dict[str, Any], of_ray: dict[str, Any] | None = None) -> Patched:
    """A pod with these resources, patched."""
    pod = review_kit.pod()
    pod["spec"]["resources"] = whole
    if of_ray is not None:
        pod["spec"]["containers"][0]["resources"] = of_ray
    return patched(pod, facts=FACTS, settings=settings(collector={"resources": OWN}))


@pytest.mark.parametrize(
    ("whole", "wanted"),
    [
        (
            {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1.5", "memory": "3Gi"}},
            {
                "requests": {"cpu": "1050m", "memory": "2112Mi"},
                "limits": {"cpu": "2", "memory": "3328Mi"},
            },
        ),
        (
            {"limits": {"memory": "1000000", "hugepages-2Mi": "4Mi"}},
            {"limits": {"memory": "269435456", "hugepages-2Mi": "4Mi"}},
        ),
        ({"requests": {"cpu": "950m"}}, {"requests": {"cpu": "1"}}),
        (
            {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}},
            {
                "requests": {"cpu": "1500m", "memory": "2304Mi"},
                "limits": {"cpu": "1500m", "memory": "2304Mi"},
            },
        ),
    ],
)
def test_the_pod_has_more_by_what_the_collector_has(
    whole: dict[str, Any], wanted: dict[str, Any]
) -> None:
    """No more, and nothing that it did not have; a Guaranteed pod stays one."""
    done = patch(whole)
    assert done.pod["spec"]["resources"] == wanted
    assert "resources" in done.added
    again = patched(done.pod, facts=FACTS, settings=settings(collector={"resources": OWN}))
    assert again.operations == []


def test_the_class_of_a_pod_is_that_of_the_whole() -> None:
    """Containers' own amounts do not count where the pod has some."""
    amounts = {"cpu": "1", "memory": "1Gi"}
    done = patch({"requests": {"cpu": "2"}}, {"requests": amounts, "limits": amounts})
    assert done.pod["spec"]["initContainers"][-1]["resources"] == OWN


def test_an_amount_that_cannot_be_read_leaves_the_pod_alone() -> None:
    """Kubernetes knows ways to write amounts that nobody uses for these."""
    with pytest.raises(PatchRefusedError) as refused:
        patch({"requests": {"cpu": "1e3"}})
    assert refused.value.reason is Reason.MALFORMED
