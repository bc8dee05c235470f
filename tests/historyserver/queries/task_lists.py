"""Lists of tasks as plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from historyserver.compiled.opener import CompiledSession
from historyserver.queries.options import ListOptions
from historyserver.queries.tasks import tasks_json


def list_tasks(session: CompiledSession, options: ListOptions) -> dict[str, Any]:
    """`/api/v0/tasks`, decoded. Raises `QueryError`."""
    return msgspec.json.decode(tasks_json(session, options), type=dict[str, Any])
