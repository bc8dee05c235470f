"""The tree of tasks by who started them, for the progress view of a job's page.

The rules are Ray's (`TaskSummaries.to_summary_by_lineage`, 2.55): tasks hang below the task or
actor that owns them, siblings of one name become a GROUP, counts add up, and siblings are
ordered by running, pending and failed attempts, then time. Ray looks at 10,000 attempts only;
here all count, and only the list of a GROUP's children is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

MAX_CHILDREN = 1000
"""An entry lists this many of its children, the first in Ray's order; its counts are of all."""

MAX_ROOTS = 10_000
"""So many entries at the top, for sessions that name each task differently."""

MAX_DEPTH = 200
"""Deeper levels are counted but not listed: the browser could not draw them."""

_LATEST = 1 << 62
_DRIVER = b"\xff" * 20
_RUNNING = frozenset({"RUNNING", "RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT"})
_PENDING = frozenset(
    {
        "PENDING_ARGS_AVAIL",
        "PENDING_NODE_ASSIGNMENT",
        "PENDING_OBJ_STORE_MEM_AVAIL",
        "PENDING_ARGS_FETCH",
    }
)
TOTALS = {
    "NORMAL_TASK": "total_tasks",
    "ACTOR_TASK": "total_actor_tasks",
    "ACTOR_CREATION_TASK": "total_actor_scheduled",
}
"""How Ray's summaries call the totals of the types of tasks."""


class Link(msgspec.Struct, gc=False):
    """What the page opens on a click."""

    type: str
    id: str


class Entry(msgspec.Struct, gc=False):
    """A task, an actor or a group, as the answer has it."""

    name: str
    key: str
    type: str
    timestamp: int | None
    state_counts: dict[str, int]
    children: list[Entry]
    link: Link | None


LineageRow = tuple[bytes, str, str, str, str, bytes, int]
"""Task id, name, function, type, state, parent, creation (ms) of an attempt."""


class _Node:
    """A task over all its attempts, or an actor; `children` is None where there are none."""

    __slots__ = ("children", "counts", "created_ms", "func", "key", "name", "parent", "type")

    def __init__(self, key: bytes, name: str, kind: str, created_ms: int) -> None:
        self.key = key
        self.name = name
        self.func = ""
        self.type = kind
        self.parent = b""
        self.created_ms = created_ms
        self.counts: dict[str, int] = {}
        self.children: list[_Node] | None = None

    def adopt(self, child: _Node) -> None:
        if self.children is None:
            self.children = []
        self.children.append(child)


class Lineage:
    """Collects the attempts of a session and gives the summary of a job, or of all.

    Counts of tasks with one attempt are one shared dict per state: most tasks are such.
    """

    def __init__(self) -> None:
        self._tasks: dict[bytes, _Node] = {}
        self._single: dict[str, dict[str, int]] = {}
        self._attempts: dict[tuple[bytes, str], int] = {}

    def add(self, attempt: LineageRow) -> None:
        """Add an attempt that is no driver; the first one of a task gives name and time."""
        task_id, name, func, kind, state, parent, created_ms = attempt
        node = self._tasks.get(task_id)
        one = self._single.get(state)
        if one is None:
            one = self._single[state] = {state: 1}
        if node is None:
            node = self._tasks[task_id] = _Node(task_id, name or func, kind, created_ms)
            node.func, node.parent = func, parent
            node.counts = one
        else:
            node.counts = _sum((node.counts, one))
        seen = (task_id[20:], kind)
        self._attempts[seen] = self._attempts.get(seen, 0) + 1

    def jobs(self) -> list[str]:
        """Give the jobs that have tasks, hex."""
        return sorted({tail.hex() for tail, _ in self._attempts})

    def attempts(self, job: str = "") -> int:
        """Give how many attempts the summary of a job counts."""
        return sum(n for (tail, _), n in self._attempts.items() if not job or tail.hex() == job)

    def summary(self, actor_names: Mapping[str, str], job: str = "") -> dict[str, object]:
        """Make the answer's `cluster` object.

        Args:
            actor_names: what to call actors, by id; others take their class from the task.
            job: hex job id, or "" for all.

        """
        tail = bytes.fromhex(job)
        tasks = [node for key, node in self._tasks.items() if key.endswith(tail)]
        tasks.sort(key=lambda node: node.key)  # the order of Ray's list decides between equals
        roots = _grow(tasks, actor_names)
        own_counts = {node.key: node.counts for node in tasks}
        _add_up(roots)
        totals = dict.fromkeys(TOTALS.values(), 0)
        for (job_tail, kind), count in self._attempts.items():
            if job_tail.endswith(tail) and kind in TOTALS:
                totals[TOTALS[kind]] += count
        summary = _listed(roots, MAX_ROOTS, 0)
        for node in tasks:
            node.counts, node.children = own_counts[node.key], None
        return {"summary": summary, **totals, "summary_by": "lineage"}


def _grow(tasks: Iterable[_Node], actor_names: Mapping[str, str]) -> list[_Node]:
    """Hang everything below its owner; what has an unknown owner is not in the tree, as in Ray."""
    by_id = {node.key: node for node in tasks}
    creators = {n.key[8:]: n for n in by_id.values() if n.type == "ACTOR_CREATION_TASK"}
    actors: dict[bytes, _Node] = {}
    roots: list[_Node] = []

    def hang(node: _Node, parent: bytes) -> None:
        if not parent or parent.startswith(_DRIVER):
            roots.append(node)
        elif (owner := by_id.get(parent)) is not None and owner is not node:
            owner.adopt(node)

    for node in by_id.values():
        if node.type not in ("ACTOR_TASK", "ACTOR_CREATION_TASK"):
            hang(node, node.parent)
            continue
        actor_id = node.key[8:]
        creator = creators.get(actor_id)
        if creator is None:
            continue
        actor = actors.get(actor_id)
        if actor is None:
            name = actor_names.get(actor_id.hex()) or creator.func.partition(".")[0]
            actor = _Node(actor_id, name, "ACTOR", creator.created_ms)
            actors[actor_id] = actor
            hang(actor, creator.parent)
        actor.adopt(node)
    return roots


def _add_up(roots: list[_Node]) -> None:
    """Give every node the counts of all below it and the earliest time among them."""
    for node in _bottom_up(roots):
        if node.children is None:
            continue
        node.counts = _sum([node.counts, *(child.counts for child in node.children)])
        times = [child.created_ms for child in node.children if child.created_ms]
        node.created_ms = min([node.created_ms or _LATEST, *times])
        if node.created_ms == _LATEST:
            node.created_ms = 0


def _bottom_up(roots: list[_Node]) -> Iterator[_Node]:
    """Every node that has children, after them; without recursion, for chains of any length."""
    stack = [node for node in roots if node.children is not None]
    order: list[_Node] = []
    while stack:
        node = stack.pop()
        order.append(node)
        stack += [child for child in node.children or () if child.children is not None]
    return reversed(order)


def _listed(siblings: Iterable[_Node], limit: int, depth: int) -> list[Entry]:
    """List siblings as the answer has them: grouped by name, in Ray's order."""
    if depth >= MAX_DEPTH:
        return []
    by_name: dict[str, list[_Node]] = {}
    for node in siblings:
        by_name.setdefault(node.name, []).append(node)
    entries: list[tuple[tuple[int, ...], list[_Node], dict[str, int], int]] = []
    for nodes in by_name.values():
        counts = nodes[0].counts if len(nodes) == 1 else _sum(node.counts for node in nodes)
        first_ms = min((n.created_ms for n in nodes if n.created_ms), default=0)
        kind = nodes[0].type if len(nodes) == 1 else "GROUP"
        entries.append((_order(counts, first_ms, kind), nodes, counts, first_ms))
    entries.sort(key=lambda entry: entry[0])
    return [_entry(*entry[1:], depth) for entry in entries[:limit]]


def _entry(nodes: list[_Node], counts: dict[str, int], first_ms: int, depth: int) -> Entry:
    if len(nodes) == 1:
        return _single_entry(nodes[0], depth)
    ordered = sorted(nodes, key=lambda n: _order(n.counts, n.created_ms, n.type))
    children = [_single_entry(node, depth + 1) for node in ordered[:MAX_CHILDREN]]
    name = nodes[0].name
    return Entry(name, name, "GROUP", first_ms or None, counts, children, None)


def _single_entry(node: _Node, depth: int) -> Entry:
    kind, entity_id = (
        ("actor", node.key.hex()) if node.type == "ACTOR" else ("task", node.key.hex())
    )
    return Entry(
        node.name,
        f"actor:{entity_id}" if kind == "actor" else entity_id,
        node.type,
        node.created_ms or None,
        node.counts,
        [] if node.children is None else _listed(node.children, MAX_CHILDREN, depth + 1),
        Link(kind, entity_id),
    )


def _order(counts: Mapping[str, int], first_ms: int, kind: str) -> tuple[int, ...]:
    running = pending = 0
    for state, count in counts.items():
        if state in _RUNNING:
            running += count
        elif state in _PENDING:
            pending += count
    is_creation = kind == "ACTOR_CREATION_TASK"
    return (-running, -pending, -counts.get("FAILED", 0), first_ms or _LATEST, not is_creation)


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for state, count in one.items():
            total[state] = total.get(state, 0) + count
    return total
