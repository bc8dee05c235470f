"""One call for all who ask the same at the same time.

Fifty pods of a new cluster arrive within milliseconds; the API server is asked once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Flight(Generic[V]):
    def __init__(self) -> None:
        self.landed = threading.Event()
        self.value: V | None = None
        self.error: Exception | None = None


class Flights(Generic[K, V]):
    """Calls under way, by key. Nothing is kept after a call's end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[K, _Flight[V]] = {}

    def ask(self, key: K, call: Callable[[], V], *, wait_s: float) -> tuple[V, bool]:
        """The call's value, and whether it was another's call.

        Raises what the call raised; `TimeoutError` when another's call takes too long.
        """
        with self._lock:
            flight = self._under_way.get(key)
            is_ours = flight is None
            if flight is None:
                flight = self._under_way[key] = _Flight()
        if is_ours:
            return self._fly(key, flight, call), False
        if not flight.landed.wait(wait_s):
            raise TimeoutError
        if flight.error is not None:
            raise flight.error
        return flight.value, True  # type: ignore[return-value]

    def _fly(self, key: K, flight: _Flight[V], call: Callable[[], V]) -> V:
        try:
            flight.value = call()
            return flight.value
        except Exception as error:
            flight.error = error
            raise
        finally:
            with self._lock:
                del self._under_way[key]
            flight.landed.set()
