"""A small API server: real HTTP, with list, watch and their faults at the test's wish."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import urllib3

from webhook.kube.client import Api

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """A status and a body."""

    status: int
    body: Any


def refusal(status: int, reason: str, message: str) -> Answer:
    """Kubernetes' own error."""
    return Answer(
        status,
        {
            "kind": "Status",
            "status": "Failure",
            "code": status,
            "reason": reason,
            "message": message,
        },
    )


Rule = Callable[[Asked], Answer | None]


def hangs(release: threading.Event) -> Rule:
    """A server that does not answer until it is released."""

    def rule(_: Asked) -> None:
        release.wait(10)

    return rule


@dataclass
class Collection:
    """Objects of one kind, and the changes that a watch can still be told."""

    objects: dict[str, Json] = field(default_factory=dict)
    changes: list[tuple[int, Json]] = field(default_factory=list)
    oldest: int = 0
    """Versions before this one are gone."""
    lists: int = 0
    watches: list[str] = field(default_factory=list)
    """The versions from which watches began."""
    generation: int = 0
    """Raised to end all open watches."""


class ApiDouble:
    """Collections by path, and rules that come before them."""

    def __init__(self) -> None:
        self.version = 100
        self.collections: dict[str, Collection] = {}
        self.rules: list[Rule] = []
        self.asked: list[Asked] = []
        self.changed = threading.Condition()
        self.stopping = False

    def collection(self, path: str) -> Collection:
        """The collection of a path; made at first use."""
        return self.collections.setdefault(path, Collection())

    def put(self, path: str, name: str, *, namespace: str = "", **meta: Any) -> None:
        """Add or change an object, and tell the watches."""
        collection = self.collection(path)
        key = f"{namespace}/{name}"
        with self.changed:
            self.version += 1
            kind = "MODIFIED" if key in collection.objects else "ADDED"
            collection.objects[key] = {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "uid": f"uid-{name}",
                    "managedFields": [{"manager": "x"}],
                    **meta,
                    "resourceVersion": str(self.version),
                }
            }
            self._tell(collection, kind, collection.objects[key])

    def delete(self, path: str, name: str, *, namespace: str = "") -> None:
        """Remove an object, and tell the watches."""
        with self.changed:
            self.version += 1
            gone = self.collection(path).objects.pop(f"{namespace}/{name}")
            gone["metadata"]["resourceVersion"] = str(self.version)
            self._tell(self.collection(path), "DELETED", gone)

    def say(self, path: str, line: Json) -> None:
        """Tell the watches any line."""
        with self.changed:
            self.version += 1
            self.collection(path).changes.append((self.version, line))
            self.changed.notify_all()

    def bookmark(self, path: str) -> None:
        """Tell the watches the newest version."""
        self.say(
            path,
            {
                "type": "BOOKMARK",
                "object": {"metadata": {"resourceVersion": str(self.version + 1)}},
            },
        )

    def end_watches(self, path: str, *, forget: bool = False) -> None:
        """End open watches; with `forget`, what was before now cannot be followed any more."""
        with self.changed:
            collection = self.collection(path)
            collection.generation += 1
            if forget:
                self.version += 1
                collection.oldest = self.version
                collection.changes.clear()
            self.changed.notify_all()

    def requests(self, method: str, part: str) -> list[Asked]:
        """What was asked by this method of paths with this part."""
        return [one for one in self.asked if one.method == method and part in one.path]

    def _tell(self, collection: Collection, kind: str, changed: Json) -> None:
        collection.changes.append((self.version, {"type": kind, "object": changed}))
        self.changed.notify_all()


@contextmanager
def serving(double: ApiDouble) -> Iterator[Api]:
    """Serve it on the loopback; gives a client of it."""
    with _served(double) as address:
        pool = urllib3.PoolManager(maxsize=8)
        try:
            yield Api(host=address, pool=pool, authorization=lambda: "bearer t")
        finally:
            pool.clear()


@contextmanager
def _served(double: ApiDouble) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.block_on_close = False
    server.double = double  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        with double.changed:
            double.stopping = True
            double.changed.notify_all()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""

    @property
    def _double(self) -> ApiDouble:
        return cast("ApiDouble", self.server.double)  # type: ignore[attr-defined]

    def _answer(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        asked = Asked(
            self.command, unquote(url.path), dict(parse_qsl(url.query)), dict(self.headers), body
        )
        self._double.asked.append(asked)
        try:
            for rule in list(self._double.rules):
                answer = rule(asked)
                if answer is not None:
                    self._send(answer)
                    return
            self._of_collection(asked)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _of_collection(self, asked: Asked) -> None:
        collection = self._double.collections.get(asked.path)
        if collection is None:
            self._send(refusal(404, "NotFound", "the server could not find the requested resource"))
        elif asked.query.get("watch"):
            self._watch(collection, asked)
        else:
            self._list(collection, asked)

    def _list(self, collection: Collection, asked: Asked) -> None:
        begin = int(asked.query.get("continue", 0))
        end = begin + int(asked.query.get("limit", 10_000))
        with self._double.changed:
            collection.lists += begin == 0
            found = list(collection.objects.values())
            meta = {"resourceVersion": str(self._double.version)}
        if end < len(found):
            meta["continue"] = str(end)
        self._send(Answer(200, {"metadata": meta, "items": found[begin:end]}))

    def _watch(self, collection: Collection, asked: Asked) -> None:
        double = self._double
        told = int(asked.query["resourceVersion"])
        generation = collection.generation
        collection.watches.append(asked.query["resourceVersion"])
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if told < collection.oldest:
            gone = refusal(410, "Expired", "too old resource version").body
            self._chunk({"type": "ERROR", "object": gone})
        else:
            while collection.generation == generation and not double.stopping:
                with double.changed:
                    new = [change for change in collection.changes if change[0] > told]
                    if not new:
                        double.changed.wait(0.2)
                for at, line in new:
                    told = at
                    self._chunk(line)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, line: Json) -> None:
        data = json.dumps(line).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _send(self, answer: Answer) -> None:
        raw = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
