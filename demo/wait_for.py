"""Wait until a URL answers 200: `python wait_for.py URL TIMEOUT_S`; run inside the namespace."""

from __future__ import annotations

import sys
import time
import urllib.request


def main() -> int:
    """Exit status 0 when the URL answered in time."""
    url, timeout_s = sys.argv[1], float(sys.argv[2])
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + timeout_s
    problem = "not asked"
    while time.monotonic() < deadline:
        try:
            with opener.open(url, timeout=5) as answer:
                if answer.status == 200:
                    return 0
                problem = f"status {answer.status}"
        except OSError as error:
            problem = str(error)
        time.sleep(0.2)
    print(f"{url} did not answer within {timeout_s:.0f} s: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
