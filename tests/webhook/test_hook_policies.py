"""What becomes of a postStart hook that a pod has already."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webhook.samples import SETTINGS, facts, sample
from webhook.overrides import HOOK_POLICY
from webhook.patches import patched
from webhook.patches.hook import Hook, hook
from webhook.patches.hook_script import command
from webhook.settings import HookPolicy

THEIRS = {"postStart": {"exec": {"command": ["/bin/bash", "-lc", "echo hi"]}}, "preStop": {"x": {}}}
HTTP = {"postStart": {"httpGet": {"path": "/", "port": 1}}}


def ruled(lifecycle: Any, policy: HookPolicy, *, host_pid: bool = False) -> Hook:
    """The rule for a Ray container with this lifecycle."""
    return hook({"lifecycle": lifecycle}, policy=policy, temp_dir="/tmp/ray", host_pid=host_pid)


def argv_of(result: Hook) -> list[str]:
    """The new hook's command."""
    assert result.lifecycle is not None
    argv = result.lifecycle["postStart"]["exec"]["command"]
    assert isinstance(argv, list)
    return argv


@pytest.mark.parametrize("lifecycle", [None, {}, {"preStop": {"x": {}}}])
@pytest.mark.parametrize("policy", [HookPolicy.MERGE, HookPolicy.OVERRIDE])
def test_without_a_hook_ours_is_set(lifecycle: Any, policy: HookPolicy) -> None:
    """`preStop` stays."""
    result = ruled(lifecycle, policy)
    assert argv_of(result) == command("/tmp/ray", [])
    assert result.lifecycle is not None
    assert {**(lifecycle or {}), **result.lifecycle} == result.lifecycle
    assert result.warning == ""


def test_merge_runs_the_users_command_unchanged() -> None:
    """As the end of our script, argument by argument."""
    result = ruled(THEIRS, HookPolicy.MERGE)
    assert argv_of(result) == command("/tmp/ray", ["/bin/bash", "-lc", "echo hi"])
    assert result.lifecycle is not None
    assert result.lifecycle["preStop"] == {"x": {}}
    assert result.warning == ""


def test_override_replaces_and_tells() -> None:
    """As Container Service for Kubernetes does, but not in silence."""
    result = ruled(THEIRS, HookPolicy.OVERRIDE)
    assert argv_of(result) == command("/tmp/ray", [])
    assert "replaced" in result.warning
    assert argv_of(ruled(HTTP, HookPolicy.OVERRIDE)) == command("/tmp/ray", [])


@pytest.mark.parametrize("lifecycle", [None, THEIRS, HTTP])
def test_skip_changes_nothing(lifecycle: Any) -> None:
    """The collector finds the node id without it."""
    assert ruled(lifecycle, HookPolicy.SKIP) == Hook()


def test_hook_that_is_no_command_is_kept_and_told() -> None:
    """It cannot be joined with a script."""
    result = ruled(HTTP, HookPolicy.MERGE)
    assert result.lifecycle is None
    assert "httpGet" in result.warning


def test_scripts_of_both_guides_are_recognised() -> None:
    """They do the work already; twice would be one search too many."""
    ack = sample("user-hook-of-the-ack-guide")["spec"]["containers"][0]["lifecycle"]
    assert ruled(ack, HookPolicy.MERGE) == Hook()
    gke = {
        "postStart": {
            "exec": {"command": ["/bin/sh", "-lc", "--", "echo $n > /tmp/ray/raylet_node_id"]}
        }
    }
    assert ruled(gke, HookPolicy.MERGE) == Hook()


def test_ours_is_not_doubled() -> None:
    """Nor with a user's command at its end."""
    for first in (None, THEIRS):
        once = ruled(first, HookPolicy.MERGE).lifecycle
        assert ruled(once, HookPolicy.MERGE) == Hook()
        assert ruled(once, HookPolicy.OVERRIDE) == Hook()


def test_hosts_processes_in_sight_leave_it_out() -> None:
    """The script could find the raylet of another pod on the node."""
    assert ruled(None, HookPolicy.MERGE, host_pid=True) == Hook()


@pytest.mark.parametrize(
    ("word", "hooked"), [("skip", False), ("override", True), ("Merge?", True)]
)
def test_annotation_is_stronger_than_the_setting(word: str, hooked: bool) -> None:
    """A word that is no policy is told and not used."""
    pod = sample("kuberay-1.6-head")
    pod["metadata"]["annotations"][HOOK_POLICY] = word
    result = patched(pod, facts=facts(), settings=SETTINGS)
    assert ("lifecycle" in result.pod["spec"]["containers"][0]) == hooked
    assert any(HOOK_POLICY in each for each in result.warnings) == (word == "Merge?")
