"""`python -m historyserver` is the program `historyserver`."""

from __future__ import annotations

import sys

from historyserver.cli import main

if __name__ == "__main__":
    sys.exit(main())
