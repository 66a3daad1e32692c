"""Runs of cases by name."""

from __future__ import annotations

from pathlib import Path

from golden import commands, digests
from golden.adapter import calibrate_and_mask
from golden.cases import CASES

NAMES = tuple(sorted({*CASES, *commands.CASES}))


def run(name: str, folder: Path, *, compiled: bool = True) -> dict[str, list[bytes]]:
    """The lines of each part of a case.

    ``folder`` holds the files that the configurations name. ``compiled`` selects the codec; commands use the default.
    """
    if name in commands.CASES:
        return commands.run(commands.CASES[name], folder)
    case = CASES[name]
    rounds = case.rounds()
    outcome = calibrate_and_mask(case.configuration, rounds, folder, compiled=compiled)
    assert outcome.compiled is compiled, f"{name} does not run with the expected codec"
    return digests.lines_of(rounds, outcome)
