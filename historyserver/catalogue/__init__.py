"""Sessions known to storage: found by listing, searched, sorted and paged.

The list comes from our catalogue entries, from KubeRay's markers and from scanning the data
trees for sessions that have neither (their collector was killed); no session's content is
walked for it. `api`, `pages`, `sessions` and `web` call this package; it imports `reading` and
`folding`, and knows no HTTP.
"""

from __future__ import annotations

from historyserver.catalogue.catalogue import Catalogue
from historyserver.catalogue.entry import SessionEntry
from historyserver.catalogue.paging import Page, PagingError, SortKey, page

__all__ = [
    "Catalogue",
    "Page",
    "PagingError",
    "SessionEntry",
    "SortKey",
    "page",
]
