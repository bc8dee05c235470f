"""The compiled files that replicas share through storage: fetched, judged, and stored back.

Nothing that fails here keeps a reader from a session, which is compiled instead. So each outcome
is counted: replicas that all compile for themselves are slow, and nobody would see why.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from historyserver.compiled.cache import CompiledCache
from historyserver.compiled.opener import BrokenFileError, CompiledSession
from historyserver.compiled.schema import SCHEMA_VERSION
from historyserver.compiling.stored import Fetched, fetch, store
from historyserver.reading.source import SessionSource
from historyserver.sessions.watching import FetchOutcome, SessionWatch, StoreOutcome
from storage.backend import Backend, StorageError
from storage.layout import compiled_key

log = logging.getLogger(__name__)


class SharedFiles:
    """The compiled files in storage. Safe to use from any thread."""

    def __init__(self, backend: Backend, *, max_bytes: int, watch: SessionWatch) -> None:
        self._backend = backend
        self._max_bytes = max_bytes
        self._watch = watch
        self._background = ThreadPoolExecutor(2, thread_name_prefix="storing")

    def fetch(
        self, cache: CompiledCache, source: SessionSource, key: str, unfinished: Path
    ) -> tuple[CompiledSession | None, FetchOutcome]:
        """Fetch a file into the cache, and open it if it is what its key says.

        Raises `StorageError`, or `OSError` when the cache fails.
        """
        outcome, compiled = FetchOutcome.CACHE_FAILED, None
        try:
            stored_key, max_bytes = _key(source), self._max_bytes
            fetched = fetch(self._backend, stored_key, unfinished, max_bytes=max_bytes)
            if fetched is Fetched.WHOLE:
                compiled, outcome = _accept(cache, source, key, unfinished)
            else:
                is_absent = fetched is Fetched.ABSENT
                outcome = FetchOutcome.ABSENT if is_absent else FetchOutcome.DAMAGED
        except StorageError:
            outcome = FetchOutcome.STORAGE_FAILED
            raise
        finally:
            self._watch.fetched(outcome)
        return compiled, outcome

    def store(self, source: SessionSource, compiled: CompiledSession, *, replace: bool) -> None:
        """Store a file for other replicas, in the background; with `replace` over a bad one."""
        try:
            self._background.submit(self._store, _key(source), compiled, replace=replace)
        except RuntimeError:  # this server stops: another one stores it
            self._watch.stored(StoreOutcome.STOPPING)

    def close(self) -> None:
        """Finish what is being stored."""
        self._background.shutdown(wait=True)

    def _store(self, key: str, compiled: CompiledSession, *, replace: bool) -> None:
        """One that may not write still serves."""
        outcome = StoreOutcome.FAILED
        try:
            is_new = store(self._backend, key, compiled.path, replace=replace)
            outcome = StoreOutcome.STORED if is_new else StoreOutcome.THERE_ALREADY
        except StorageError as error:
            outcome = StoreOutcome.STORAGE_FAILED
            fields = {"key": key, "error": str(error)}
            log.warning("not stored, other replicas compile it again", extra=fields)
        except OSError as error:
            outcome = StoreOutcome.FILE_FAILED
            fields = {"key": key, "error": str(error)}
            log.warning("the compiled file cannot be read, so it is not stored", extra=fields)
        except Exception:  # nobody waits for this thread's result
            log.exception("a compiled file was not stored", extra={"key": key})
        finally:
            self._watch.stored(outcome)


def _key(source: SessionSource) -> str:
    return compiled_key(source.session, SCHEMA_VERSION, source.fingerprint)


def _accept(
    cache: CompiledCache, source: SessionSource, key: str, unfinished: Path
) -> tuple[CompiledSession | None, FetchOutcome]:
    """Take over a fetched file, if it is what its key says."""
    try:
        compiled = cache.add(key, unfinished)
    except BrokenFileError as error:
        fields = {"session": source.session.session, "error": str(error)}
        log.warning("a stored file is not usable, it is made anew", extra=fields)
        return None, FetchOutcome.UNUSABLE
    meta, ref = compiled.meta, source.session
    told = (meta.namespace, meta.cluster, meta.session, meta.fingerprint)
    if told == (ref.namespace, ref.cluster, ref.session, source.fingerprint):
        return compiled, FetchOutcome.USED
    fields = {"session": ref.session, "told": "/".join(told)}
    log.warning("a stored file holds another session, it is made anew", extra=fields)
    compiled.close()
    cache.remove(compiled.path)
    return None, FetchOutcome.OTHER_SESSION
