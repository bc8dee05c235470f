"""`python -m certs`."""

from __future__ import annotations

import sys

from certs.cli import main

sys.exit(main())
