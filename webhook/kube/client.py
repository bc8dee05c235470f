"""The API server over HTTP: bytes in, bytes out, every call bounded in time.

The `kubernetes` package reads the kubeconfig or the pod's account and makes the connection
pool; its typed calls are not used, since they drop unknown fields and cost 1 ms per pod.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3
from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject

from webhook.kube.wire import Status

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

# The package's loaders are not annotated.
_load_file: Callable[..., None] = config.load_kube_config
_load_account: Callable[..., None] = config.load_incluster_config

_IDLE_BEFORE_PROBE_S = 20
_PROBE_EVERY_S = 5
_PROBES = 4
_CONNECTIONS = 32
"""Kept open; more are made when needed."""
_SHORTEST_RETRY_S = 0.1


class KubeError(Exception):
    """A call to the API server failed."""


class UnreachableError(KubeError):
    """The API server did not answer, or not in time."""


class RefusedError(KubeError):
    """The API server answered with an error."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({status} {reason})" if reason else f"{message} ({status})")
        self.status = status
        self.reason = reason
        self.message = message


class NoClusterError(Exception):
    """There is no API server to ask: neither a kubeconfig nor a pod's account."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long what is asked within a review may take."""

    longest_s: float
    time_left: Callable[[float], float] = lambda limit_s: limit_s
    """Makes a limit shorter by what the review has left."""

    def limit_s(self) -> float:
        """For all calls of one question."""
        return self.time_left(self.longest_s)


class Lines:
    """The lines of a response that does not end by itself, as a watch."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        try:
            for chunk in self._response.stream(None, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from filter(None, lines)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise UnreachableError(f"the watch broke off: {error}") from error

    def stop(self) -> None:
        """End a read that another thread waits in."""
        try:
            self._response.shutdown()
        except (ValueError, OSError, RuntimeError):
            pass  # Already over, or not begun: there is nothing to wake.


class Api:
    """Calls one API server. Safe for threads."""

    def __init__(
        self, *, host: str, pool: urllib3.PoolManager, authorization: Callable[[], str]
    ) -> None:
        """`authorization` gives the header's value for each request, since tokens rotate."""
        self._host = host.rstrip("/")
        self._pool = pool
        self._authorization = authorization

    def get(
        self,
        path: str,
        *,
        timeout_s: float,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
    ) -> bytes:
        """GET. Raises `KubeError`."""
        return self._call("GET", path, query=query, accept=accept, timeout_s=timeout_s)

    def post(self, path: str, body: Mapping[str, Any], *, timeout_s: float) -> bytes:
        """Create an object. Raises `KubeError`.

        Names are fixed by the caller, so that asking twice cannot make two.
        """
        return self._call("POST", path, body=body, timeout_s=timeout_s)

    def patch(self, path: str, body: Mapping[str, Any], *, timeout_s: float) -> bytes:
        """Apply a JSON merge patch. Raises `KubeError`."""
        return self._call("PATCH", path, body=body, content=MERGE_PATCH, timeout_s=timeout_s)

    @contextmanager
    def lines(
        self, path: str, *, query: Mapping[str, str], accept: str, connect_s: float, idle_s: float
    ) -> Iterator[Lines]:
        """Follow a response by lines; `idle_s` without a byte means that it is dead."""
        timeout = urllib3.Timeout(connect=connect_s, read=idle_s)
        response = self._request("GET", _with(path, query), self._headers(accept), None, timeout)
        try:
            if response.status >= 400:
                raise _refusal(response.status, response.data)
            yield Lines(response)
        finally:
            # Never returned to the pool: the rest of a watch is not read.
            response.close()

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def _call(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        body: Mapping[str, Any] | None = None,
        content: str = JSON,
    ) -> bytes:
        deadline_s = time.monotonic() + timeout_s
        headers = self._headers(accept)
        if body is not None:
            headers["Content-Type"] = content
        data = None if body is None else msgspec.json.encode(body)
        try:
            return self._once(method, _with(path, query), headers, data, timeout_s)
        except _BrokenConnectionError:
            # The API server closed an idle connection just now. Once more, on another one.
            left_s = deadline_s - time.monotonic()
            if left_s < _SHORTEST_RETRY_S:
                raise
            return self._once(method, _with(path, query), headers, data, left_s)

    def _once(
        self, method: str, url: str, headers: Mapping[str, str], data: bytes | None, limit_s: float
    ) -> bytes:
        timeout = urllib3.Timeout(total=limit_s)
        response = self._request(method, url, headers, data, timeout)
        try:
            payload = response.data
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise UnreachableError(f"the API server's answer broke off: {error}") from error
        if response.status >= 400:
            raise _refusal(response.status, payload)
        return payload

    def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: bytes | None,
        timeout: urllib3.Timeout,
    ) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.request(
                method,
                self._host + url,
                body=data,
                headers=headers,
                timeout=timeout,
                retries=False,
                preload_content=False,
            )
        except urllib3.exceptions.ProtocolError as error:
            raise _BrokenConnectionError(f"the API server hung up: {error}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise UnreachableError(f"the API server does not answer: {error}") from error

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept, "User-Agent": "ray-history-webhook"}
        if authorization := self._authorization():
            headers["Authorization"] = authorization
        return headers


class _BrokenConnectionError(UnreachableError):
    """The connection ended before an answer began."""


def connect(kubeconfig: str = "") -> Api:
    """Reach the cluster of a kubeconfig file, or the one that this pod runs in.

    Raises `NoClusterError`. The pod's token is read again every minute by the package's hook,
    since the kubelet replaces it before its hour is over.
    """
    configuration = Configuration()
    try:
        if kubeconfig:
            _load_file(kubeconfig, client_configuration=configuration)
        else:
            _load_account(client_configuration=configuration)
    except Exception as error:  # The package lets errors of YAML, base64 and types through.
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "the pod's account"
        raise NoClusterError(f"no API server: {where} cannot be used: {error}") from error
    configuration.connection_pool_maxsize = _CONNECTIONS
    configuration.socket_options = _socket_options()
    return Api(
        host=configuration.host,
        pool=RESTClientObject(configuration).pool_manager,
        authorization=lambda: _authorization(configuration),
    )


def _authorization(configuration: Configuration) -> str:
    """The bearer token as the package has it now; empty with client certificates."""
    setting = configuration.auth_settings().get("BearerToken")
    return str(setting["value"] or "") if setting else ""


def _socket_options() -> list[tuple[int, int, int]]:
    """Keep-alive probes, so that a host that vanished is noticed within a minute."""
    options = [
        *urllib3.connection.HTTPConnection.default_socket_options,
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for name, value in (
        ("TCP_KEEPIDLE", _IDLE_BEFORE_PROBE_S),
        ("TCP_KEEPINTVL", _PROBE_EVERY_S),
        ("TCP_KEEPCNT", _PROBES),
    ):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def _with(path: str, query: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _refusal(status: int, payload: bytes) -> RefusedError:
    """Kubernetes' own words where it answered with a Status; else the beginning of the body."""
    try:
        said = msgspec.json.decode(payload, type=Status)
    except msgspec.MsgspecError:
        said = Status(message=payload[:200].decode(errors="replace").strip())
    return RefusedError(status, said.reason, said.message or "the API server refused")
