"""Whether this cluster runs native sidecars: asked of the server and of its nodes.

Beta and on by default since Kubernetes 1.29. A kubelet older than the server may start such a
sidecar as an ordinary init container and wait for its end for ever, so one old node that pods
can be scheduled to is enough for a no. In doubt the answer is no: the classic form works
everywhere. https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator

import msgspec

from webhook.kube.client import Api, KubeError
from webhook.kube.periodic import Periodic
from webhook.kube.wire import TABLE, ServerVersion, Table
from webhook.settings import SidecarMode

_log = logging.getLogger("webhook.kube.versions")

FIRST_NATIVE = (1, 29)
EVERY_S = 60.0
_TRUSTED_S = 300.0
"""An older answer is in doubt."""
_TIMEOUT_S = 15.0
_PAGE = "500"
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


class SidecarSupport:
    """Asks every minute, answers at once."""

    def __init__(
        self,
        api: Api,
        *,
        mode: SidecarMode,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With a fixed mode nothing is asked, and no right to list nodes is needed."""
        self._api = api
        self._mode = mode
        self._clock = clock
        self._asked = False
        self._why = ""
        self._native_until_s = -1.0
        self._periodic = Periodic("sidecar-support", once=self.check, every_s=every_s)

    def start(self) -> None:
        """Begin to ask."""
        if self._mode is SidecarMode.AUTO:
            self._periodic.start()

    def stop(self) -> None:
        """Stop asking."""
        self._periodic.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the end."""
        self._periodic.join(timeout_s)

    def problem(self) -> str:
        """What is not known yet; else empty. A failure counts as an answer: it is a no."""
        is_known = self._asked or self._mode is not SidecarMode.AUTO
        return "" if is_known else "the nodes' versions have not been asked yet"

    def is_native(self) -> bool:
        """Whether native sidecars run here."""
        if self._mode is not SidecarMode.AUTO:
            return self._mode is SidecarMode.NATIVE
        return self._clock() < self._native_until_s

    def check(self) -> None:
        """Ask once."""
        try:
            why = self._obstacle()
        except (KubeError, msgspec.MsgspecError) as error:
            # The last answer stands until it is too old.
            self._asked = True
            self._tell(f"the versions cannot be asked: {error}")
            return
        self._native_until_s = -1.0 if why else self._clock() + _TRUSTED_S
        self._asked = True
        self._tell(why)

    def _tell(self, why: str) -> None:
        """Log a change, not every round."""
        if why != self._why:
            self._why = why
            said = f"classic sidecars: {why}" if why else "native sidecars: all versions do"
            _log.info(said)

    def _obstacle(self) -> str:
        """What speaks against native sidecars; empty when nothing does."""
        body = self._api.get("/version", timeout_s=_TIMEOUT_S)
        server = msgspec.json.decode(body, type=ServerVersion).git_version
        if not _is_new(server):
            return f"the API server is {server or 'of unknown version'}"
        is_any = False
        for node, kubelet in self._kubelets():
            is_any = True
            if not _is_new(kubelet):
                return f"the kubelet of node {node} is {kubelet or 'of unknown version'}"
        return "" if is_any else "there is no schedulable node"

    def _kubelets(self) -> Iterator[tuple[str, str]]:
        """Name and kubelet of every node that takes new pods.

        From the table that `kubectl get nodes` prints: a node object is 15 kB, its row 200 bytes.
        """
        place = ""
        while True:
            query = {
                "fieldSelector": "spec.unschedulable=false",
                "includeObject": "None",
                "limit": _PAGE,
            }
            if place:
                query["continue"] = place
            body = self._api.get("/api/v1/nodes", query=query, accept=TABLE, timeout_s=_TIMEOUT_S)
            table = msgspec.json.decode(body, type=Table)
            columns = {column.name: at for at, column in enumerate(table.column_definitions)}
            for row in table.rows or ():
                cells = dict(zip(columns, row.cells, strict=False))
                yield str(cells.get("Name", "?")), str(cells.get("Version", ""))
            place = table.metadata.next_page
            if not place:
                return


def _is_new(version: str) -> bool:
    found = _VERSION.match(version)
    return found is not None and (int(found[1]), int(found[2])) >= FIRST_NATIVE
