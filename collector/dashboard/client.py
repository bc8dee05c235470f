"""Asks Ray's dashboard: one bounded GET at a time, with the cluster's credentials."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yarl

from collector.dashboard.judging import Rejection

MAX_BODY_BYTES = 64 * 1024 * 1024
AUTH_HEADER = "x-ray-authorization"
SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/ray.io/serviceaccount/token")

_CONNECT_S = 2.0
_CHUNK_BYTES = 256 * 1024

_log = logging.getLogger(__name__)


class CredentialsError(Exception):
    """The environment asks for token authentication and gives no token."""


@dataclass(frozen=True, slots=True)
class DashboardCredentials:
    """How to authenticate, from the variables that KubeRay and Ray set.

    A token file is read for each request, as Kubernetes renews service account tokens.
    """

    token: str = ""
    token_path: Path | None = None

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> DashboardCredentials:
        """Read `RAY_ENABLE_K8S_TOKEN_AUTH`, `RAY_AUTH_TOKEN`, `RAY_AUTH_TOKEN_PATH` and
        `RAY_AUTH_MODE`, in this order of precedence.

        Raises `CredentialsError` when `RAY_AUTH_MODE=token` and none is there.
        """
        if env.get("RAY_ENABLE_K8S_TOKEN_AUTH", "").strip().lower() in {"1", "t", "true"}:
            return cls(token_path=SERVICE_ACCOUNT_TOKEN)
        if token := env.get("RAY_AUTH_TOKEN", "").strip():
            return cls(token=token)
        if path := env.get("RAY_AUTH_TOKEN_PATH", "").strip():
            return cls(token_path=Path(path))
        if env.get("RAY_AUTH_MODE", "").strip().lower() == "token":
            raise CredentialsError(
                "RAY_AUTH_MODE=token needs RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
            )
        return cls()

    def headers(self) -> dict[str, str]:
        """What to send. Raises `OSError` or `ValueError` when the token file cannot be read."""
        token = self.token
        if self.token_path is not None:
            token = self.token_path.read_text().strip()
        return {AUTH_HEADER: f"Bearer {token}"} if token else {}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, or why nothing did."""

    status: int = 0
    content_type: str = ""
    body: bytes = b""
    fault: Rejection | None = None


class DashboardClient:
    """A client for one dashboard address; made and used in one event loop."""

    def __init__(self, url: str, credentials: DashboardCredentials) -> None:
        self._url = (url if "://" in url else f"http://{url}").rstrip("/")
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None
        self._token_fault = ""

    async def get(self, name: str, *, timeout_s: float) -> Answer:
        """Ask for a path with query. Never raises but for cancellation."""
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=False)
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(_CONNECT_S, timeout_s))
        # The name is the query string that Ray's front end sends: nothing may be re-quoted.
        url = yarl.URL(self._url + name, encoded=True)
        try:
            async with self._session.get(
                url, timeout=timeout, headers=self._headers(), allow_redirects=False
            ) as response:
                body = bytearray()
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    body += chunk
                    if len(body) > MAX_BODY_BYTES:
                        return Answer(response.status, fault=Rejection.TOO_LARGE)
                return Answer(response.status, response.content_type, bytes(body))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return Answer(fault=Rejection.UNREACHABLE)

    def _headers(self) -> dict[str, str]:
        """Without a readable token nothing, and the dashboard will refuse. Told once per fault."""
        fault = ""
        headers: dict[str, str] = {}
        try:
            headers = self._credentials.headers()
        except (OSError, ValueError) as error:
            fault = str(error)
        if fault and fault != self._token_fault:
            _log.warning("dashboard token not readable", extra={"error": fault})
        self._token_fault = fault
        return headers

    async def close(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
