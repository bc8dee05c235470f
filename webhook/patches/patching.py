"""Puts the rules together: one pod in, the patched pod and its operations out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webhook.collectors import STATUS
from webhook.decisions import Reason
from webhook.facts import Pod, PodFacts
from webhook.overrides import HOOK_POLICY
from webhook.patches import collector_env, sidecar
from webhook.patches.event_env import driver_env, event_env, silent_warning
from webhook.patches.grace import grace_period_s
from webhook.patches.hook import hook
from webhook.patches.operations import operations
from webhook.patches.pod_resources import pod_resources
from webhook.patches.pull_secrets import missing_pull_secrets
from webhook.patches.ray_auth import auth_env, auth_mounts
from webhook.patches.refusal import PatchRefusedError
from webhook.patches.resources import resources
from webhook.patches.rrsa import rrsa_env, rrsa_mounts, rrsa_volumes
from webhook.patches.scene import Scene, scene_of
from webhook.patches.security import security_context
from webhook.patches.self_check import faults
from webhook.patches.service_account import account_fields
from webhook.patches.status import status
from webhook.patches.volume import SharedRoot, shared_root
from webhook.pod_parts import Part, items, named, part, text
from webhook.settings import HookPolicy, Settings

WARNING_LENGTH = 120
"""Clients show longer ones cut, and the API server keeps 4 KiB of all."""


@dataclass(frozen=True, slots=True)
class Patched:
    """A pod with its collector."""

    pod: dict[str, Any]
    operations: list[dict[str, Any]]
    """RFC 6902; empty when nothing is missing, as on a second pass."""
    warnings: tuple[str, ...]
    added: tuple[str, ...]
    """What was added, as `container/NAME`, `volume/NAME`, `env/NAME`, ..."""
    mode: str
    """`native` or `classic`."""
    events_port: int
    """0 where only logs are collected."""


def patched(pod: Pod, *, facts: PodFacts, settings: Settings) -> Patched:
    """Give a pod its collector, or check the one that an earlier pass gave it.

    Pure: the pod given is not changed, and the result shares its unchanged parts. Raises
    `PatchRefusedError` when the pod must stay as it is.
    """
    scene = scene_of(pod, facts=facts, settings=settings)
    draft = _Draft(scene)
    after = draft.finish()
    steps = operations(pod, after)
    wrong = faults(pod, after, operations=steps, ours=scene.name) if steps else []
    if wrong:
        raise PatchRefusedError(Reason.SELF_CHECK_FAILED, "; ".join(wrong)[:500])
    warnings = dict.fromkeys(text[:WARNING_LENGTH] for text in draft.warnings if text)
    return Patched(
        pod=after,
        operations=steps,
        warnings=tuple(warnings),
        added=tuple(draft.added),
        mode=scene.mode,
        events_port=scene.events_port,
    )


class _Draft:
    """A pod under construction: copies what it changes, shares the rest."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._spec: dict[str, Any] = dict(scene.spec)
        self.warnings: list[str] = [*scene.warnings]
        self.added: list[str] = []

    def finish(self) -> dict[str, Any]:
        """Apply every rule."""
        scene = self._scene
        shared = shared_root(
            scene.ray,
            volumes=items(scene.spec, "volumes"),
            root=scene.root,
            size_limit=scene.settings.collector.tmp_size_limit,
        )
        self.warnings += shared.warnings
        self._pod_fields()
        self._volumes(shared)
        ray = self._ray(shared)
        ours = self._ours(shared)
        self._place(ray, ours)
        return {**scene.pod, "metadata": self._metadata(), "spec": self._spec}

    def _pod_fields(self) -> None:
        """Grace period, account, pull secrets."""
        scene = self._scene
        self._grace_s, warning = grace_period_s(
            scene.spec,
            setting_s=scene.settings.collector.grace_period_s,
            overrides=scene.overrides,
        )
        self.warnings.append(warning)
        fields = {
            "terminationGracePeriodSeconds": self._grace_s,
            **account_fields(scene.facts.service_account),
        }
        for name, value in fields.items():
            if self._spec.get(name) != value:
                self._spec[name] = value
                self.added.append(name)
        present = items(scene.spec, "imagePullSecrets")
        secrets = missing_pull_secrets(present, scene.settings.collector.image_pull_secrets)
        self._extend("imagePullSecrets", present, secrets)

    def _volumes(self, shared: SharedRoot) -> None:
        """Add what is missing; another's volume of the same name cannot stand in for ours."""
        scene = self._scene
        present = items(scene.spec, "volumes")
        settings = scene.settings
        missing = [each for each in rrsa_volumes(settings.rrsa) if not named(present, each["name"])]
        for volume in (*shared.volumes, *settings.collector.volumes):
            existing = named(present, volume["name"])
            if existing is None:
                missing.append(volume)
            elif scene.ours is None and existing != volume:
                raise PatchRefusedError(
                    Reason.NAME_TAKEN, f"the pod has a volume {volume['name']} of its own"
                )
        self._extend("volumes", present, missing)
        self.added += [f"volume/{each['name']}" for each in missing]

    def _ray(self, shared: SharedRoot) -> Part:
        """The Ray container: variables, the mount and the hook; nothing else of it."""
        scene = self._scene
        ray, changes = scene.ray, dict[str, Any]()
        env = event_env(ray, port=scene.events_port) if scene.events_port else []
        if env:
            changes["env"] = [*items(ray, "env"), *env]
            self.added += [f"env/{each['name']}" for each in env]
            self.warnings.append(silent_warning(ray))
        if shared.ray_mount is not None:
            changes["volumeMounts"] = [*items(ray, "volumeMounts"), shared.ray_mount]
            self.added.append(f"mount{scene.root}")
        hooked = hook(
            ray,
            policy=self._hook_policy(),
            temp_dir=scene.root,
            host_pid=bool(scene.spec.get("hostPID")),
        )
        self.warnings.append(hooked.warning)
        if hooked.lifecycle is not None:
            changes["lifecycle"] = hooked.lifecycle
            self.added.append("hook/postStart")
        return {**ray, **changes} if changes else ray

    def _hook_policy(self) -> HookPolicy:
        setting = self._scene.settings.collector.hook_policy
        word = self._scene.overrides.get(HOOK_POLICY)
        try:
            return HookPolicy(word) if word else setting
        except ValueError:
            self.warnings.append(f"{HOOK_POLICY}: {word[:20]!r} is none of {', '.join(HookPolicy)}")
            return setting

    def _ours(self, shared: SharedRoot) -> Part:
        scene = self._scene
        amounts, warnings = resources(
            scene.pod, settings=scene.settings.collector.resources, overrides=scene.overrides
        )
        self.warnings += warnings
        if scene.ours is None:
            self._budget(amounts)
        wanted = sidecar.container(
            scene.settings.collector,
            name=scene.name,
            mode=scene.mode,
            env=self._env(shared),
            mounts=self._mounts(shared),
            metrics_port=scene.metrics_port,
            resources=amounts,
            security_context=security_context(
                scene.ray,
                pod_context=part(scene.spec, "securityContext"),
                run_as_user=scene.settings.collector.run_as_user,
            ),
        )
        return wanted if scene.ours is None else sidecar.completed(scene.ours, wanted)

    def _budget(self, amounts: Part) -> None:
        """Where the pod as a whole has requests and limits, ours come on top."""
        before = part(self._scene.spec, "resources")
        after = pod_resources(self._scene.spec, amounts)
        if after != before:
            self._spec["resources"] = after
            self.added.append("resources")

    def _env(self, shared: SharedRoot) -> list[dict[str, Any]]:
        scene = self._scene
        cluster = scene.facts.cluster
        own = [
            *collector_env.identity_env(scene.pod, cluster=cluster),
            *collector_env.listening_env(
                events_port=scene.events_port, metrics_port=scene.metrics_port
            ),
            *collector_env.ray_env(scene.pod, scene.ray, cluster=cluster, root=scene.root),
            {"name": "GRACE_PERIOD", "value": f"{self._grace_s}s"},
            *auth_env(scene.ray),
            *rrsa_env(scene.settings.rrsa),
            *shared.env,
        ]
        return collector_env.merged_env(own, scene.settings.collector.env)

    def _mounts(self, shared: SharedRoot) -> list[dict[str, Any]]:
        """One per path; Ray's root is never hidden by another."""
        settings = self._scene.settings
        mounts: dict[str, dict[str, Any]] = {}
        for mount in (
            *shared.mounts,
            *auth_mounts(self._scene.ray),
            *rrsa_mounts(settings.rrsa),
            *settings.collector.volume_mounts,
        ):
            mounts.setdefault(text(mount, "mountPath").rstrip("/") or "/", mount)
        return list(mounts.values())

    def _place(self, ray: Part, ours: Part) -> None:
        """Ray stays first; ours is last: after `wait-gcs-ready`, and after a mesh's proxy, so
        that it ends before the proxy does.
        """
        scene = self._scene
        others = [self._other(each, ours) for each in items(scene.spec, "containers")[1:]]
        containers = [ray, *others]
        if scene.ours is None:
            self.added.append(f"container/{scene.name}")
            if scene.mode == sidecar.NATIVE:
                self._extend("initContainers", items(scene.spec, "initContainers"), [ours])
            else:
                containers.append(ours)
        elif scene.mode == sidecar.NATIVE and ours is not scene.ours:
            self._spec["initContainers"] = [
                ours if each is scene.ours else each for each in items(scene.spec, "initContainers")
            ]
        self._spec["containers"] = containers

    def _other(self, container: Part, ours: Part) -> Part:
        if container is self._scene.ours:
            return ours
        if not self._scene.events_port:
            return container
        env = driver_env(container, ray=self._scene.ray)
        return {**container, "env": [*items(container, "env"), *env]} if env else container

    def _extend(self, field: str, present: Sequence[Part], more: Sequence[Part]) -> None:
        if more:
            self._spec[field] = [*present, *more]

    def _metadata(self) -> Part:
        scene = self._scene
        metadata = part(scene.pod, "metadata")
        if scene.ours is not None:
            return metadata
        # Variables can be seen where they are; listing them would double the annotation.
        added = [each for each in self.added if not each.startswith("env/")]
        said = status(mode=scene.mode, container=scene.name, added=added)
        annotations = {**part(metadata, "annotations"), STATUS: said}
        return {**metadata, "annotations": annotations}
