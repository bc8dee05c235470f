"""Somebody else's mutating webhook: a pod in, a changed pod out."""

from __future__ import annotations

import base64
import copy
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jsonpatch
import trustme

from tests.operator.pods import Space
from tests.operator.release import HOOKS

Change = Callable[[dict[str, Any]], None]
"""Changes a pod in place."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    change: Change


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(body)["request"]
        before = request["object"]
        after = copy.deepcopy(before)
        self.server.change(after)
        patch = jsonpatch.make_patch(before, after).to_string()
        response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(patch.encode()).decode()
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
        answer = json.dumps({**review, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def other_webhook(
    space: Space, change: Change, *, name: str, reinvocation: str = "Never"
) -> Iterator[None]:
    """For the pods of one namespace. Webhooks run in the order of their names."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    certificate = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.change = change
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    space.admin.post(HOOKS, _configuration(space, name, server.server_port, bundle, reinvocation))
    try:
        yield
    finally:
        space.admin.delete(f"{HOOKS}/{name}")
        server.shutdown()
        server.server_close()
        thread.join()


def _configuration(
    space: Space, name: str, port: int, bundle: str, reinvocation: str
) -> dict[str, Any]:
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
    }
    hook = {
        "name": "other.test.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "reinvocationPolicy": reinvocation,
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}},
        "rules": [rule],
    }
    return {"metadata": {"name": name}, "webhooks": [hook]}
