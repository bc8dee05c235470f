"""Grace period, ServiceAccount, pull secrets, and the collector's resources."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webhook.samples import SETTINGS, facts, sample
from webhook.overrides import GRACE_PERIOD, PREFIX, Overrides
from webhook.patches import patched
from webhook.patches.grace import grace_period_s
from webhook.patches.pull_secrets import missing_pull_secrets
from webhook.patches.resources import is_guaranteed, quantity, resources
from webhook.patches.service_account import account_name
from webhook.settings import Resources

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.mark.parametrize(
    ("own", "word", "expected"),
    [
        (None, "", 120),
        (30, "", 120),
        (0, "", 120),
        (31, "", 31),
        (600, "", 600),
        (30, "60", 60),
        (30, "20", 30),
        (300, "60", 300),
        (300, "400", 400),
        (30, "soon", 120),
        (45, "-1", 45),
        (30, "99999999", 120),
    ],
)
def test_grace_period_is_raised_and_never_lowered(
    own: int | None, word: str, expected: int
) -> None:
    """30 is the default that nobody chose; the annotation may raise further."""
    spec = {} if own is None else {"terminationGracePeriodSeconds": own}
    overrides = Overrides(pod={GRACE_PERIOD: word})
    seconds, warning = grace_period_s(spec, setting_s=120, overrides=overrides)
    assert seconds == expected
    assert bool(warning) == (word in ("soon", "-1", "99999999"))


def test_collector_knows_the_pods_grace_period() -> None:
    """It plans its drain by it."""
    result = patched(sample("kuberay-1.6-head"), facts=facts(), settings=SETTINGS)
    assert result.pod["spec"]["terminationGracePeriodSeconds"] == 120
    env = result.pod["spec"]["initContainers"][-1]["env"]
    assert {"name": "GRACE_PERIOD", "value": "120s"} in env


def test_account_and_its_mirror_are_set_together() -> None:
    """Kubernetes refuses a pod where they disagree."""
    pod = sample("kuberay-1.6-head")
    spec = patched(pod, facts=facts(service_account="rhs-demo"), settings=SETTINGS).pod["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("rhs-demo", "rhs-demo")
    spec = patched(pod, facts=facts(), settings=SETTINGS).pod["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")


def test_account_name_is_the_documented_one() -> None:
    """PREFIX-RAYCLUSTER, unchanged where Kubernetes allows it."""
    assert (
        account_name("ray-historyserver", "wukun-ray240-abc")
        == "ray-historyserver-wukun-ray240-abc"
    )
    assert account_name("p", "team.cluster") == "p-team.cluster"
    longest = "c" * 251
    assert account_name("p", longest) == f"p-{longest}"


NAME = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", fullmatch=True)


@given(prefix=st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True), cluster=NAME)
def test_account_names_are_within_the_limits(prefix: str, cluster: str) -> None:
    """Always a DNS subdomain of at most 253, and always the same."""
    name = account_name(prefix, cluster)
    assert len(name) <= 253
    assert SUBDOMAIN.fullmatch(name) or ".." in cluster or ".-" in cluster or "-." in cluster
    assert name == account_name(prefix, cluster)


def test_long_clusters_do_not_share_an_account() -> None:
    """Cut names end in a hash of the whole."""
    one, two = (account_name("p" * 60, "c" * 240 + end) for end in ("a", "b"))
    assert one != two
    assert len(one) == len(two) == 253


def test_missing_pull_secrets_are_appended() -> None:
    """By name, once."""
    present = [{"name": "a"}]
    assert missing_pull_secrets(present, ("b", "a", "b", "c")) == [{"name": "b"}, {"name": "c"}]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", "1"),
        ("250m", "0.25"),
        ("64Mi", "67108864"),
        ("1.5G", "1500000000"),
        ("2Ki", "2048"),
        ("1k", "1000"),
    ],
)
def test_quantities_are_read(text: str, number: str) -> None:
    """As Kubernetes writes them."""
    assert quantity(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "x", "1Xi", "-1", "1 Gi", "1K", "٣"])
def test_other_words_are_no_quantities(text: str) -> None:
    """They would make the API server refuse the pod."""
    assert quantity(text) is None


def amounts(**words: str) -> tuple[dict[str, dict[str, str]], tuple[str, ...]]:
    """Resources under annotations."""
    overrides = Overrides(
        pod={PREFIX + name.replace("_", "-"): word for name, word in words.items()}
    )
    return resources(sample("kuberay-1.6-head"), settings=Resources(), overrides=overrides)


def test_amounts_come_from_settings_and_annotations() -> None:
    """Requests and limits are always there."""
    found, warnings = amounts(memory_limit="512Mi")
    assert found["limits"] == {"cpu": "500m", "memory": "512Mi", "ephemeral-storage": "4Gi"}
    assert found["requests"] == {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "64Mi"}
    assert warnings == ()


def test_request_and_limit_stay_in_order() -> None:
    """A request above its limit is refused by Kubernetes: what was asked for pulls the other."""
    found, _ = amounts(cpu_request="2", memory_limit="32Mi")
    assert (found["requests"]["cpu"], found["limits"]["cpu"]) == ("2", "2")
    assert (found["requests"]["memory"], found["limits"]["memory"]) == ("32Mi", "32Mi")


def test_amount_that_is_none_is_told_and_not_used() -> None:
    """The pod would be refused."""
    found, warnings = amounts(cpu_limit="much")
    assert found["limits"]["cpu"] == "500m"
    assert warnings == ("rayhistory.io/cpu-limit: 'much' is no quantity; not used",)


def test_guaranteed_pods_stay_guaranteed() -> None:
    """Exclusive CPUs and the order of evictions hang on the class."""
    for mode in ("native", "classic"):
        pod = sample("user-guaranteed-gpu-worker")
        assert is_guaranteed(pod)
        after = patched(pod, facts=facts(mode), settings=SETTINGS).pod
        assert is_guaranteed(after)
        assert (
            after["spec"]["containers"][0]["resources"] == pod["spec"]["containers"][0]["resources"]
        )
    assert not is_guaranteed(sample("kuberay-1.6-head"))
