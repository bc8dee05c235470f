"""Our own pages: the list of sessions and the error page."""
