"""Opens a compiled session: read-only, immutable, from any thread."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import IO
from urllib.parse import quote

from historyserver.compiled.meta import Meta, MetaError, meta_from_rows
from historyserver.compiled.schema import SCHEMA_VERSION

CACHE_KIB = 1024
"""Of SQLite's own page cache per connection: little, since the kernel has the pages too."""
STRINGS_KEPT = 50_000
"""Dictionary entries that one open session keeps in memory."""


class BrokenFileError(Exception):
    """The file is not a whole compiled session of this version; make it anew."""


class CompiledSession:
    """One open compiled session.

    Connections are one per thread, as sqlite3 wants it; all are closed by `close`, and when
    nobody refers to the session any more.
    """

    def __init__(self, path: Path, meta: Meta) -> None:
        self.path = path
        self.meta = meta
        self.fingerprint = meta.fingerprint
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[sqlite3.Connection] = []
        self._values: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._kept: list[IO[bytes]] = []

    def connection(self) -> sqlite3.Connection:
        """Give this thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect_read_only(self.path)
            self._local.connection = connection
            with self._lock:
                self._connections.append(connection)
        return connection

    def string(self, string_id: int | None) -> str:
        """Look up the dictionary; the absent id (None) is the empty string."""
        if string_id is None:
            return ""
        value = self._values.get(string_id)
        if value is None:
            row = (
                self.connection()
                .execute("SELECT value FROM strings WHERE id = ?", (string_id,))
                .fetchone()
            )
            value = row[0] if row else ""
            if len(self._values) >= STRINGS_KEPT:
                self._values.clear()
            self._values[string_id] = value
        return value

    def string_id(self, value: str) -> int | None:
        """Find the id of a value; None when no row of this session has it."""
        found = self._ids.get(value)
        if found is None:
            row = (
                self.connection()
                .execute("SELECT id FROM strings WHERE value = ?", (value,))
                .fetchone()
            )
            if row is None:
                return None
            found = int(row[0])
            if len(self._ids) >= STRINGS_KEPT:
                self._ids.clear()
            self._ids[value] = found
        return found

    def keep_until_closed(self, file: IO[bytes]) -> None:
        """Close a file together with this session, as one whose lock says it is in use."""
        self._kept.append(file)

    def close(self) -> None:
        """Close every thread's connection. No thread may be in a query.

        It also happens by itself when nobody refers to the session any more, so that requests
        that still run may end after a newer one took its place.
        """
        with self._lock:
            connections, self._connections = self._connections, []
            kept, self._kept = self._kept, []
        for connection in connections:
            connection.close()
        for file in kept:
            file.close()
        self._local = threading.local()

    def __del__(self) -> None:
        self.close()


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Connect to a finished file: no locks, no journal.

    Its pages are not mapped: whoever cuts a mapped file ends every process that reads it by
    SIGBUS, where a read fails with an error that makes the file anew.
    """
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1",
        uri=True,
        check_same_thread=False,  # `close` runs in another thread than the queries did
        isolation_level=None,
    )
    connection.execute("PRAGMA mmap_size = 0")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection


def open_compiled(path: Path) -> CompiledSession:
    """Open a compiled file.

    Raises `FileNotFoundError` when there is none, `BrokenFileError` when it is not one, is
    truncated, or is of another schema version.
    """
    if not path.is_file():
        raise FileNotFoundError(path)
    try:
        with contextlib.closing(connect_read_only(path)) as connection:
            _check_length(connection, path)
            meta = meta_from_rows(connection.execute("SELECT key, value FROM meta"))
    except (sqlite3.Error, MetaError) as error:
        raise BrokenFileError(f"{path.name}: {error}") from error
    if meta.schema_version != SCHEMA_VERSION:
        raise BrokenFileError(
            f"{path.name}: schema {meta.schema_version}, this version reads {SCHEMA_VERSION}"
        )
    return CompiledSession(path, meta)


def _check_length(connection: sqlite3.Connection, path: Path) -> None:
    """See that no page is missing: a cut file still opens and fails only later, in a query."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    size_bytes = path.stat().st_size
    header_pages = int.from_bytes(_header(path)[28:32], "big")
    if size_bytes != pages * page_bytes or header_pages != pages:
        raise BrokenFileError(
            f"{path.name}: {size_bytes} bytes, {header_pages * page_bytes} are due"
        )


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(100)
