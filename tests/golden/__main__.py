"""``python -m golden update | write FOLDER``: see the folder's docstring for when to use which."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from support import examples

from golden import cases

USAGE = "usage: PYTHONPATH=tests python -m golden update | write FOLDER [CASE ...]"


def update() -> None:
    """Compute the digests of all cases, and what the examples expect, again."""
    with TemporaryDirectory() as name:
        folder = cases.write_files(Path(name))
        found = {name: cases.digests(cases.outcome(name, folder)) for name in sorted(cases.CASES)}
    cases.FILE.write_text(json.dumps(found, indent=1) + "\n")
    examples.write()
    print(f"say in CHANGELOG.md what changed, with the words “{cases.mark()}”")


def write(folder: Path, *names: str) -> None:
    """Write the outputs of cases, of all without names, to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary:
        files = cases.write_files(Path(temporary))
        for name in names or cases.CASES:
            for part, content in cases.outcome(name, files).items():
                (folder / f"{name}.{part}.jsonl").write_bytes(content)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["update"]:
            update()
        case ["write", place, *some]:
            write(Path(place), *some)
        case _:
            sys.exit(USAGE)
