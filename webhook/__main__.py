"""`python -m webhook` is the program `webhook`."""

from __future__ import annotations

import sys

from webhook.cli import main

if __name__ == "__main__":
    sys.exit(main())
