"""The API server over HTTP: JSON in, JSON out, every call bounded in time.

The `kubernetes` package reads the kubeconfig or the pod's account and makes the connection
pool; its typed calls are not used, since they drop fields that they do not know. Calls are not
repeated here: the keeper looks again in some seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3
import yaml
from kubernetes import config
from kubernetes.client import Configuration as ClientConfiguration
from kubernetes.client.rest import RESTClientObject

from certs.cluster import ClusterError, Failure

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
_JSON = "application/json"
_FAILURES = {401: Failure.FORBIDDEN, 403: Failure.FORBIDDEN, 409: Failure.CONFLICT}


class NoClusterError(Exception):
    """There is no API server to ask: neither a kubeconfig nor a pod's account."""


class NotFoundError(ClusterError):
    """The object does not exist."""


class Api:
    """Calls one API server. Safe for threads."""

    def __init__(
        self,
        configuration: ClientConfiguration,
        *,
        timeout_s: float,
        on_date: Callable[[str | None], None],
    ) -> None:
        """`on_date` gets the `Date` of each answer."""
        self._configuration = configuration
        self._pool = RESTClientObject(configuration).pool_manager
        self._timeout_s = timeout_s
        self._on_date = on_date

    def get(self, path: str) -> Any:
        """GET. Raises `ClusterError`."""
        return self._call("GET", path, None, "")

    def post(self, path: str, body: Any) -> Any:
        """Create an object. Raises `ClusterError`."""
        return self._call("POST", path, body, _JSON)

    def patch(self, path: str, body: Any, kind: str) -> Any:
        """Patch an object; `kind` is the patch's content type. Raises `ClusterError`."""
        return self._call("PATCH", path, body, kind)

    def lines(self, path: str, query: Mapping[str, str], *, idle_s: float) -> Iterator[bytes]:
        """The pieces of an answer that goes on, as a watch. Raises `ClusterError`."""
        timeout = urllib3.Timeout(connect=self._timeout_s, read=idle_s)
        response = self._request("GET", f"{path}?{urlencode(query)}", None, "", timeout)
        try:
            if response.status >= 400:
                raise _refusal(response.status, response.data)
            yield from response.stream(None, decode_content=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _unreachable(error) from error
        finally:
            response.close()  # not given back to the pool: its rest is not read

    def _call(self, method: str, path: str, body: Any, content: str) -> Any:
        timeout = urllib3.Timeout(total=self._timeout_s)
        response = self._request(method, path, body, content, timeout)
        try:
            payload = response.data
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _unreachable(error) from error
        self._on_date(response.headers.get("Date"))
        if response.status >= 400:
            raise _refusal(response.status, payload)
        try:
            return msgspec.json.decode(payload)
        except msgspec.DecodeError as error:
            raise ClusterError(Failure.REFUSED, f"the answer is no JSON: {error}") from error

    def _request(
        self, method: str, path: str, body: Any, content: str, timeout: urllib3.Timeout
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": _JSON, "User-Agent": "ray-history-certs"}
        if content:
            headers["Content-Type"] = content
        if authorization := self._authorization():
            headers["Authorization"] = authorization
        try:
            return self._pool.request(
                method,
                self._configuration.host.rstrip("/") + path,
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                timeout=timeout,
                retries=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _unreachable(error) from error

    def _authorization(self) -> str:
        """The bearer token; the package reads the pod's again before it ends."""
        setting = self._configuration.auth_settings().get("BearerToken")
        return str(setting["value"] or "") if setting else ""


def client_configuration(kubeconfig: str) -> ClientConfiguration:
    """The cluster of a kubeconfig file, or the one that this pod runs in.

    Raises `NoClusterError`.
    """
    configuration = ClientConfiguration()
    try:
        if kubeconfig:
            config.load_kube_config(kubeconfig, client_configuration=configuration)
        else:
            config.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError, yaml.YAMLError, ValueError, TypeError) as error:
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "the pod's account"
        why = " ".join(str(error).split())
        raise NoClusterError(f"no API server: {where} cannot be used: {why}") from error
    return configuration


def _unreachable(error: Exception) -> ClusterError:
    return ClusterError(Failure.UNREACHABLE, f"the API server does not answer: {error}")


def _refusal(status: int, payload: bytes) -> ClusterError:
    """Kubernetes' own words where it answered with a Status; else the beginning of the body."""
    try:
        message = str(msgspec.json.decode(payload)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        message = payload[:200].decode(errors="replace").strip()
    if status == 404:
        return NotFoundError(Failure.REFUSED, f"{message} (404)")
    return ClusterError(_FAILURES.get(status, Failure.REFUSED), f"{message} ({status})")
