"""The serving certificate, exchanged while connections come in.

A change of the files makes a complete new context, which then takes the old one's place:
loading into the live context would let a handshake see a certificate with another's key. The
new files failing, the old context serves on.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from webhook.certificate_dates import not_after_s
from webhook.metrics import Reload, WebhookMetrics
from webhook.settings import Tls

_log = logging.getLogger("webhook.certificate")


@dataclass(frozen=True, slots=True)
class _Loaded:
    context: ssl.SSLContext
    not_after_s: float
    """Unix time."""


class ServingCertificate:
    """The certificate of the moment. Safe for threads."""

    def __init__(self, tls: Tls, metrics: WebhookMetrics) -> None:
        self._tls = tls
        self._metrics = metrics
        self._loaded: _Loaded | None = None
        self._seen: tuple[bytes, bytes] | None = None
        metrics.watch_certificate(self.not_after_s)

    def context(self) -> ssl.SSLContext:
        """For the next handshake. Raises `ssl.SSLError` while there is no certificate."""
        loaded = self._loaded
        if loaded is None:
            raise ssl.SSLError("there is no certificate yet")
        return loaded.context

    def not_after_s(self) -> float:
        """When it ends, as Unix time; 0 while there is none."""
        return self._loaded.not_after_s if self._loaded is not None else 0.0

    def problem(self) -> str:
        """Why it cannot serve now; empty when it can."""
        if self._loaded is None:
            return f"no certificate in {self._tls.cert_file} yet"
        if time.time() >= self._loaded.not_after_s:
            return "the certificate has expired"
        return ""

    def refresh(self) -> bool:
        """Look at the files and take what is new; False when they cannot be used.

        They are two files of a volume that is exchanged as a whole, and small: reading them is
        as cheap as asking for their times, and tells more.
        """
        try:
            pair = self._read()
            if pair == self._seen:
                return True
            loaded = _load(self._tls, pair[0])
            if self._read() != pair:
                return self.refresh()  # exchanged meanwhile
        except (OSError, ValueError) as error:  # ssl's errors are OSErrors
            if self._loaded is not None or not isinstance(error, FileNotFoundError):
                self._metrics.reload(Reload.FAILED)
                _log.warning("certificate not loaded", extra={"error": str(error)})
            return False
        self._seen, self._loaded = pair, loaded
        self._metrics.reload(Reload.LOADED)
        end = datetime.fromtimestamp(loaded.not_after_s, UTC).isoformat(timespec="seconds")
        _log.info("certificate loaded", extra={"not_after": end})
        return True

    def start(self) -> None:
        """Look at the files from now on, in a thread of its own; soon while there are none."""
        self.refresh()
        threading.Thread(target=self._watch, name="certificate", daemon=True).start()

    def _watch(self) -> None:
        while True:
            every_s = self._tls.reload_every_s
            time.sleep(every_s if self._loaded is not None else min(0.5, every_s))
            self.refresh()

    def _read(self) -> tuple[bytes, bytes]:
        return Path(self._tls.cert_file).read_bytes(), Path(self._tls.key_file).read_bytes()


def _load(tls: Tls, chain: bytes) -> _Loaded:
    """Make a context. Raises OSError (of ssl too) and ValueError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.cert_file, tls.key_file)
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 0  # the API server resumes no sessions: two writes less each
    return _Loaded(context, not_after_s(chain))
