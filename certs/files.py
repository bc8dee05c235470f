"""The leaf's files, exchanged as a pair.

The folder looks like a mounted Secret: `tls.crt` and `tls.key` are links into `..data`, which is
a link to a folder of one pair. Exchanging that link, one rename, exchanges both files at once, as
the kubelet's atomic writer does. A reader resolves `..data` once and opens both files below it;
the folder of the pair before stays, so that a reader that began with it can end with it. Who
opens the two links one after the other may get one file of each pair, and has to look again.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from certs.kept import Leaf
from certs.stored import CERTIFICATE, KEY

CURRENT = "..data"
_NEXT = "..data_next"
_PAIR = "..pair-"
_MODES = {CERTIFICATE: 0o644, KEY: 0o640}
"""The key is for the user and, where the webhook runs as another one, the pod's group."""


class PairFolder:
    """Writes the pair. One writer per folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> tuple[bytes, bytes] | None:
        """Certificate and key as they are served; None while there are none."""
        current = self._current()
        while current:
            try:
                pair = self._folder / current
                return (pair / CERTIFICATE).read_bytes(), (pair / KEY).read_bytes()
            except OSError:
                # Exchanged twice since: then there is another.
                before, current = current, self._current()
                if current == before:
                    return None
        return None

    def write(self, leaf: Leaf) -> bool:
        """Serve this leaf; False when it is served already. Raises `OSError`."""
        if self.read() == (leaf.certificate, leaf.key):
            return False
        before = self._current()
        made = self._made(leaf)
        self._link(_NEXT, made.name)
        (self._folder / _NEXT).replace(self._folder / CURRENT)
        for name in _MODES:
            self._point(name)
        self._clean(keep={made.name, before})
        return True

    def _current(self) -> str:
        try:
            return (self._folder / CURRENT).readlink().name
        except OSError:
            return ""

    def _made(self, leaf: Leaf) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        made = self._folder / f"{_PAIR}{secrets.token_hex(8)}"
        made.mkdir(mode=0o750)
        for name, content in ((CERTIFICATE, leaf.certificate), (KEY, leaf.key)):
            path = made / name
            path.touch(mode=0o600)
            path.write_bytes(content)
            path.chmod(_MODES[name])
        return made

    def _point(self, name: str) -> None:
        """Let `name` lead into `..data`; put in place by a rename if it did not."""
        path, target = self._folder / name, Path(CURRENT, name)
        if not (path.is_symlink() and path.readlink() == target):
            self._link(f"..{name}_next", str(target))
            (self._folder / f"..{name}_next").replace(path)

    def _link(self, name: str, target: str) -> None:
        link = self._folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)

    def _clean(self, keep: set[str]) -> None:
        for old in self._folder.glob(f"{_PAIR}*"):
            if old.name not in keep:
                shutil.rmtree(old, ignore_errors=True)
