"""The difference of two pods as RFC 6902 operations.

The builders share what they did not change, so whole subtrees are the same object in both pods
and cost nothing. Lists only grow at their end here: a new entry is `add .../-`, which needs no
index. `jsonpatch` makes the rest.
"""

from __future__ import annotations

from typing import Any

import jsonpatch


def operations(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """What makes `after` of `before`; both are plain JSON."""
    if before is after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return _of_mappings(before, after, path)
    if isinstance(before, list) and isinstance(after, list):
        return _of_lists(before, after, path)
    if before == after and type(before) is type(after):
        return []
    return [{"op": "replace", "path": path, "value": after}]


def _of_mappings(before: dict[str, Any], after: dict[str, Any], path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, value in after.items():
        if name not in before:
            found.append({"op": "add", "path": f"{path}/{_escaped(name)}", "value": value})
        elif before[name] is not value:
            found += operations(before[name], value, f"{path}/{_escaped(name)}")
    found += [
        {"op": "remove", "path": f"{path}/{_escaped(name)}"} for name in before if name not in after
    ]
    return found


def _of_lists(before: list[Any], after: list[Any], path: str) -> list[dict[str, Any]]:
    if len(before) > len(after):
        return [
            {**each, "path": path + each["path"]} for each in jsonpatch.make_patch(before, after)
        ]
    if before and all(isinstance(each, str) for each in (*before, *after)):
        return [] if before == after else [{"op": "replace", "path": path, "value": after}]
    found: list[dict[str, Any]] = []
    for index, value in enumerate(before):
        if value is not after[index]:
            found += operations(value, after[index], f"{path}/{index}")
    found += [{"op": "add", "path": f"{path}/-", "value": value} for value in after[len(before) :]]
    return found


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name
