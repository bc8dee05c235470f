"""Accepted events on the local disk: segments of JSON lines, until they are in object storage.

Called by the intake (appends) and the shipper (reads, removes). What is appended is in the
hands of the operating system before the POST is answered, so that a killed collector
loses nothing that it acknowledged; it is synced to the device within a second.
"""

from collector.journal.journal import Journal, JournalLimits, NoSpaceError

__all__ = ["Journal", "JournalLimits", "NoSpaceError"]
