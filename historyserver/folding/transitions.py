"""Puts the transitions of an attempt in order and takes its times from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from historyserver.folding.states import CREATED, FINISHED, RUNNING, STATES, name_of, order_of
from historyserver.folding.times import NS_PER_MS

TimesOf = tuple[list[tuple[str, int]], int | str, int, int, int, int]

_Way = tuple[tuple[str, ...], int, int | None, int | None, int | None]
"""The states' names, the last state, and where in them are creation, start and end."""

_WAYS_KEPT = 1000
_ways: dict[tuple[int, ...], _Way | None] = {}


def times_of(flat: Sequence[int | str]) -> TimesOf:
    """Put an attempt's transitions in order, each once, and take its times from them.

    Returns the transitions, the state, the sort key (ns), and creation, start and end in ms.
    A session has few sequences of states and many attempts: each sequence is worked out once.
    """
    pairs: list[tuple[int, Any]] = list(zip(flat[1::2], flat[::2], strict=True))  # type: ignore[arg-type]
    try:
        pairs.sort()
        states = tuple([state for _, state in pairs])
        way = _ways[states] if states in _ways else _work_out(states)
        if way is None or not pairs[0][0]:
            return _times_of_known(pairs)
    except TypeError:  # a state that this version does not know
        return _times_of_unknown(pairs)
    names, last, created, started, ended = way
    creation_ns = 0 if created is None else pairs[created][0]
    start_ns = 0 if started is None else pairs[started][0]
    return (
        [(name, pair[0]) for name, pair in zip(names, pairs)],  # noqa: B905 - hot, of one length
        last,
        start_ns or creation_ns or pairs[0][0],
        creation_ns // NS_PER_MS,
        start_ns // NS_PER_MS,
        0 if ended is None else pairs[ended][0] // NS_PER_MS,
    )


def _work_out(states: tuple[int, ...]) -> _Way | None:
    """Find what a sequence means; None when a transition may be in it twice, or there is none."""
    way: _Way | None = None
    if states and all(state != after for state, after in pairwise(states)):
        final = [index for index, state in enumerate(states) if state >= FINISHED]
        way = (
            tuple(STATES[state] for state in states),
            max(states),
            states.index(CREATED) if CREATED in states else None,
            states.index(RUNNING) if RUNNING in states else None,
            final[-1] if final else None,
        )
    if len(_ways) >= _WAYS_KEPT:
        _ways.clear()
    _ways[states] = way
    return way


def _times_of_known(pairs: Sequence[tuple[int, int]]) -> TimesOf:
    transitions = []
    creation_ns = start_ns = end_ns = last = 0
    previous = (0, 0)
    for pair in pairs:
        if pair == previous:
            continue
        previous = pair
        ns, state = pair
        transitions.append((STATES[state], ns))
        last = max(last, state)
        if state == RUNNING:
            start_ns = start_ns or ns
        elif state == CREATED:
            creation_ns = creation_ns or ns
        elif state >= FINISHED:
            end_ns = ns
    return (
        transitions,
        last,
        start_ns or creation_ns or (pairs[0][0] if pairs else 0),
        creation_ns // NS_PER_MS,
        start_ns // NS_PER_MS,
        end_ns // NS_PER_MS,
    )


def _times_of_unknown(pairs: list[tuple[int, Any]]) -> TimesOf:
    pairs.sort(key=lambda pair: (pair[0], order_of(pair[1])))
    times = _times_of_known([pair for pair in pairs if isinstance(pair[1], int)])
    transitions = list(dict.fromkeys((name_of(state), ns) for ns, state in pairs))
    last = max((state for _, state in pairs), key=order_of)
    return (transitions, last, times[2] or pairs[0][0], *times[3:])
