"""A client of plain JSON for tests: paths and dictionaries, no typed models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class RefusedError(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} ({status})")
        self.status = status


class Client:
    """Calls an API server as the owner of a token. Safe for threads."""

    def __init__(self, *, url: str, ca_file: Path, token: str) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(ca_certs=str(ca_file), maxsize=8)
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> Any:
        """An object, a list, or a text such as that of /readyz."""
        return self.call("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Make an object."""
        return self.call("POST", path, body)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """Replace an object."""
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Any, content: str = MERGE_PATCH) -> Any:
        """Patch an object."""
        return self.call("PATCH", path, body, content)

    def delete(self, path: str) -> Any:
        """Delete an object."""
        return self.call("DELETE", path)

    def call(
        self, method: str, path: str, body: Any = None, content: str = "application/json"
    ) -> Any:
        """Any call. Raises `RefusedError`."""
        answer = self._pool.request(
            method,
            self._url + path,
            body=None if body is None else json.dumps(body),
            headers={**self._headers, "Content-Type": content},
            retries=False,
            timeout=30.0,
        )
        if answer.status >= 400:
            raise RefusedError(answer.status, _message(answer.data))
        is_json = "json" in answer.headers.get("Content-Type", "")
        return json.loads(answer.data) if is_json else answer.data.decode()


def _message(payload: bytes) -> str:
    try:
        return str(json.loads(payload)["message"])
    except (ValueError, KeyError, TypeError):
        return payload.decode(errors="replace")
