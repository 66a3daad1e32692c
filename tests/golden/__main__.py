"""``python -m golden update``: see the folder's docstring for when to use it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from golden import cases, examples


def update() -> None:
    """Compute the digests of all cases, and what the examples expect, again."""
    with TemporaryDirectory() as name:
        folder = cases.write_files(Path(name))
        found = {name: cases.digests(cases.outcome(name, folder)) for name in sorted(cases.CASES)}
    cases.FILE.write_text(json.dumps(found, indent=1) + "\n")
    examples.write()
    print(f"say in CHANGELOG.md what changed, with the words “{cases.mark()}”")


if __name__ == "__main__":
    if sys.argv[1:] != ["update"]:
        sys.exit("usage: PYTHONPATH=tests python -m golden update")
    update()
