"""What can be wrong with a question to a compiled session."""

from __future__ import annotations


class QueryError(ValueError):
    """The options cannot be understood; the message tells the reader what to do instead."""
