"""The order of shutdown, after SIGTERM.

1. The dashboard is asked a last time at once: it dies about 1.5 s after its own SIGTERM.
2. POSTs are taken and logs followed until the raylet is gone and its files are quiet, since
   Ray's processes end after our SIGTERM, or a container's before it.
3. POSTs are refused; the journal is sealed.
4. The session is finished: events, logs, manifest, end marker; then what else is left.

A second signal ends the waiting of step 2 and shortens the rest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from collector.intake.http import Intake
from collector.lifecycle.following import FollowedSession
from collector.lifecycle.session_follower import QUIET_S, SessionFollower
from collector.metrics import BackgroundTask, LoopErrors
from collector.ray_session import Raylet, probe_raylet
from collector.settings import Settings
from collector.shipping.markers import SessionEndReason
from collector.shipping.uploads import Shipper

log = logging.getLogger(__name__)

MARGIN_S = 2.0
"""Of the grace period left for the process to end in."""
WAITING_SHARE = 0.4
"""Of the grace period, spent at most on waiting for Ray's end: shipping needs the rest."""
POST_QUIET_S = 0.5
HURRY_S = 5.0
FINAL_POLL_S = 2.0
CHECK_EVERY_S = 0.2
ROUNDS = 3
ROUND_PAUSE_S = 1.0
"""Logs that change while they are stored are stored again, so often and after this pause."""


@dataclass(frozen=True, slots=True)
class Drain:
    """What is drained."""

    settings: Settings
    intake: Intake
    follower: SessionFollower
    loops: Sequence[asyncio.Task[None]]
    final_poll: Callable[[float], Coroutine[Any, Any, None]]
    shipper: Shipper
    errors: LoopErrors
    hurry: asyncio.Event
    start_s: float


async def drain(parts: Drain) -> None:
    """Bring everything to storage within the grace period."""
    grace_s = parts.settings.grace_s
    deadline_s = parts.start_s + max(1.0, grace_s - min(MARGIN_S, grace_s / 4))
    for loop in parts.loops:
        loop.cancel()
    await asyncio.gather(*parts.loops, return_exceptions=True)
    try:
        await parts.follower.look()
    except Exception:
        parts.errors.count(BackgroundTask.LAST_LOOK)
        log.exception("last look for a session failed")
    poll = asyncio.create_task(parts.final_poll(FINAL_POLL_S))
    followed = parts.follower.current
    await _until_ray_is_gone(parts, followed, parts.start_s + grace_s * WAITING_SHARE)
    await asyncio.gather(poll, return_exceptions=True)
    parts.intake.close()
    while parts.intake.busy and time.monotonic() < deadline_s and not parts.hurry.is_set():
        await asyncio.sleep(CHECK_EVERY_S / 4)
    if parts.hurry.is_set():
        deadline_s = min(deadline_s, time.monotonic() + HURRY_S)
    work = asyncio.create_task(_finish_all(parts, followed, deadline_s))
    hurried = asyncio.create_task(_shorten(parts, deadline_s))
    await asyncio.wait({work, hurried}, return_when=asyncio.FIRST_COMPLETED)
    for task in (work, hurried):
        task.cancel()
    await asyncio.gather(work, hurried, return_exceptions=True)
    parts.shipper.close()


async def _until_ray_is_gone(
    parts: Drain, followed: FollowedSession | None, until_s: float
) -> None:
    """Wait for the raylet's end, then for quiet logs and no more POSTs.

    Quiet logs count only when the raylet has been gone as long: the other processes of an
    idle Ray write their last lines up to 2.4 s after the raylet's end.
    """
    seen_s = parts.follower.raylet_seen_s
    while time.monotonic() < until_s and not parts.hurry.is_set():
        if followed is not None:
            raylet = await asyncio.to_thread(probe_raylet, followed.session.session_dir)
            if raylet is Raylet.UP:
                seen_s = time.monotonic()
        if parts.intake.idle_s >= POST_QUIET_S and (
            followed is None or _is_quiet(parts, followed, seen_s)
        ):
            return
        await asyncio.sleep(CHECK_EVERY_S)
    log.info("went on before ray was quiet", extra={"hurried": parts.hurry.is_set()})


def _is_quiet(parts: Drain, followed: FollowedSession, raylet_seen_s: float) -> bool:
    if time.monotonic() - raylet_seen_s < QUIET_S:
        return False
    return not parts.settings.collect_logs or followed.shipping.quiet_s() >= QUIET_S


async def _finish_all(parts: Drain, followed: FollowedSession | None, deadline_s: float) -> None:
    leftovers = parts.follower.leftovers
    if followed is not None:
        await leftovers.finish(followed, SessionEndReason.DRAINED, deadline_s=deadline_s)
        parts.follower.release()
    for _ in range(ROUNDS):
        if not await leftovers.drain(deadline_s=deadline_s):
            break
        await asyncio.sleep(min(ROUND_PAUSE_S, max(0.0, deadline_s - time.monotonic())))
    if leftovers.running:
        left_s = max(0.1, deadline_s - time.monotonic())
        await asyncio.wait(leftovers.running, timeout=left_s)


async def _shorten(parts: Drain, deadline_s: float) -> None:
    """Return when the time is over: at the deadline, or a little after a second signal."""
    try:
        async with asyncio.timeout(max(0.1, deadline_s + 0.5 - time.monotonic())):
            await parts.hurry.wait()
    except TimeoutError:
        log.warning("the grace period is over")
        return
    await asyncio.sleep(max(0.0, min(HURRY_S, deadline_s - time.monotonic())) + 0.5)
