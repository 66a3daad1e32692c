"""``python -m golden update | write FOLDER``: see the folder's docstring for when to use which."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from support import examples

from golden import digests
from golden.cases import CASES
from golden.digests import Lines
from golden.ontologies import write_files

USAGE = "usage: PYTHONPATH=tests python -m golden update [CASE ...] | write FOLDER [CASE ...]"


def main(arguments: Sequence[str]) -> None:
    """Runs a command."""
    match arguments:
        case ["update", *names]:
            update(names)
        case ["write", folder, *names]:
            write(Path(folder), names)
        case _:
            sys.exit(USAGE)


def update(names: Sequence[str]) -> None:
    """Computes the digests of cases again, of all cases if there are no names. Digests of removed cases are removed.

    Without names, what the examples expect is computed again too.
    """
    present = digests.expected() if digests.FILE.exists() else {}
    found = {name: digests.digests_of(lines) for name, lines in _outcomes(names)}
    digests.save({name: one for name, one in {**present, **found}.items() if name in CASES})
    changed = sorted(name for name, one in found.items() if present.get(name) != one)
    if not names:
        examples.write()
    print(f"{len(found)} cases computed, {len(changed)} changed: {', '.join(changed) or 'none'}")
    print(f"say in CHANGELOG.md what changed, with the words “{digests.mark()}”")


def write(folder: Path, names: Sequence[str]) -> None:
    """Writes the parts of cases to files, ``CASE.PART.jsonl``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in _outcomes(names):
        for part, content in lines.items():
            (folder / f"{name}.{part}.jsonl").write_bytes(b"".join(line + b"\n" for line in content))


def _outcomes(names: Sequence[str]) -> Iterator[tuple[str, Lines]]:
    if unknown := {*names} - {*CASES}:
        sys.exit(f"there is no case {', '.join(sorted(unknown))}")
    with TemporaryDirectory() as folder:
        files = write_files(Path(folder))
        for name in names or CASES:
            yield name, digests.lines_of(name, files)


if __name__ == "__main__":
    main(sys.argv[1:])
