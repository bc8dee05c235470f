"""The local backend: objects as plain files of a directory, which may be a shared volume.

`names` maps keys to paths, `folders` opens directories so that no symbolic link is followed,
`writing` makes a put atomic, `listing` walks in the byte order of keys, `errors` turns OSError
into our typed errors, `backend` puts them together. Linux only (directory file descriptors).
"""

from __future__ import annotations

from storage.local.backend import LocalBackend

__all__ = ["LocalBackend"]
