"""The two HTTP listeners: Ray's events, and probes with metrics."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from aiohttp import web

log = logging.getLogger(__name__)

SHUTDOWN_S = 1.0


class ListenError(Exception):
    """An address cannot be listened on; one line for the user."""


async def listen(
    routes: web.Application | Sequence[web.RouteDef], *, address: str, port: int, what: str
) -> web.AppRunner:
    """Serve an application on one port; the runner's `cleanup` ends it.

    Args:
        routes: the application, or the routes of a small one.
        address: to bind to.
        port: to bind to; 0 lets the system choose.
        what: its name in the log and in errors.

    Raises `ListenError`.

    """
    if isinstance(routes, web.Application):
        app = routes
    else:
        app = web.Application()
        app.add_routes(routes)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_S,
        # A bad stream would be answered with 400; see `collector.intake.bodies`.
        auto_decompress=False,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port).start()
    except OSError as error:
        await runner.cleanup()
        reason = error.strerror or str(error)
        raise ListenError(
            f"cannot listen on {address}:{port} for {what}: {reason}; give another address or port"
        ) from error
    bound_port = runner.addresses[0][1]
    log.info("listening", extra={"what": what, "address": address, "port": bound_port})
    return runner
