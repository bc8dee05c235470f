"""`python -m tests.fidelity run NAME | compare FOLDER | docs`.

`run` makes a session (`small`, `libraries` or `rich`) and compares; `compare` repeats the
comparison of a kept pair; `docs` writes docs/fidelity.md from the kept rich pair.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fidelity.comparing import Compared, undeclared
from tests.fidelity.document import document
from tests.fidelity.pairs import KEPT, RECIPES, Pair, compared, make
from tests.fidelity.table import listing, markdown, rows, total
from tests.harness.cluster import REPOSITORY

# The rich session's goal is the product's. The others have the same number of moving hardware
# figures on fewer fields.
GOALS = {"rich": 0.98, "libraries": 0.97, "small": 0.97}


def verdict(results: list[Compared], goal: float) -> int:
    """Print the table; exit status 0 when the goal is met and every difference is explained."""
    print(markdown(results))
    unexplained = list(undeclared(results))
    share = total(rows(results)).share
    if unexplained:
        print(f"{len(unexplained)} fields differ without a declared reason:")
        print(listing(unexplained))
    print(f"equal: {share:.2%} of {total(rows(results)).fields:,} fields; goal {goal:.0%}")
    return 0 if share >= goal and not unexplained else 1


def main(argv: list[str]) -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run").add_argument("name", choices=sorted(RECIPES))
    commands.add_parser("compare").add_argument("folder", type=Path)
    commands.add_parser("docs")
    options = parser.parse_args(argv)
    if options.command == "run":
        return verdict(
            compared(make(RECIPES[options.name], KEPT / options.name)), GOALS[options.name]
        )
    if options.command == "compare":
        folder = options.folder.absolute()
        return verdict(compared(Pair(folder)), GOALS.get(folder.name, GOALS["small"]))
    rich = Pair(KEPT / "rich")
    if not rich.live.exists():
        print("no kept session: run `make fidelity` first", file=sys.stderr)
        return 2
    text = document(compared(rich))
    (REPOSITORY / "docs" / "fidelity.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
