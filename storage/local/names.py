"""How keys map to paths: as they are, but for parts that a directory cannot hold.

An ordinary part of a key is a file or folder of the same name, so a tree that KubeRay's tools
wrote, or that was copied from a bucket, is read as it is. Two kinds of parts are encoded:

* longer than the 255 bytes that file systems allow: cut into nested folders,
  `.rayhistory+{piece}/.../.rayhistory={last piece}`;
* reserved names (our own, `.dir-marker` of copied buckets, `.nfs*` of NFS clients,
  `lost+found` of ext4): `.rayhistory={part}`.

The encoding is reversible, and only the canonical form of a part is recognised.
"""

from __future__ import annotations

OWN_PREFIX = ".rayhistory"
MIDDLE_PREFIX = f"{OWN_PREFIX}+"
LAST_PREFIX = f"{OWN_PREFIX}="
TEMPORARY_FOLDER = f"{OWN_PREFIX}-tmp"

MAX_NAME_BYTES = 255
_PIECE_BYTES = 200
_RESERVED_PREFIXES = (OWN_PREFIX, ".nfs")
_RESERVED_NAMES = frozenset({".dir-marker", "lost+found"})


def is_reserved(name: str) -> bool:
    """Whether a file or folder of this name is no (plain) part of a key."""
    return name in _RESERVED_NAMES or name.startswith(_RESERVED_PREFIXES)


def names_of_part(part: str) -> tuple[str, ...]:
    """The path, name by name, of one part of a key."""
    if len(part.encode()) <= MAX_NAME_BYTES:
        return (f"{LAST_PREFIX}{part}",) if is_reserved(part) else (part,)
    *middle, last = _pieces(part)
    return (*(f"{MIDDLE_PREFIX}{piece}" for piece in middle), f"{LAST_PREFIX}{last}")


def names_of_key(key: str) -> list[str]:
    """The path of a key (or a folder of keys), name by name; the key has been checked."""
    return [name for part in key.split("/") for name in names_of_part(part)]


def part_of_names(names: tuple[str, ...]) -> str | None:
    """The part of a key that these names stand for; None when they stand for none."""
    *middle, last = names
    if not middle and not is_reserved(last):
        return last
    if not last.startswith(LAST_PREFIX):
        return None
    pieces = [name.removeprefix(MIDDLE_PREFIX) for name in middle]
    part = "".join(pieces) + last.removeprefix(LAST_PREFIX)
    return part if names_of_part(part) == names else None


def _pieces(part: str) -> list[str]:
    """Cut at characters, so that each piece is text and short enough with its prefix."""
    pieces: list[str] = []
    start, size_bytes = 0, 0
    for position, character in enumerate(part):
        width = len(character.encode())
        if size_bytes + width > _PIECE_BYTES:
            pieces.append(part[start:position])
            start, size_bytes = position, 0
        size_bytes += width
    return [*pieces, part[start:]]
