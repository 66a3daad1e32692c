"""The verdict on a version, in words: whether values are protected, and whether their meaning is kept.

An attribute that has nearly always the same value is left out: it is guessed and repeated, whatever masking does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stream_masker.core.risk.risk import CERTAIN
from stream_masker.service.calibrator.page.figures import VersionFigures

NOT_KNOWN_YET = "not known yet"

MAX_CERTAIN, MAX_UNCHANGED, MAX_CORRELATION_ERROR = 0.05, 0.6, 0.1
"""Shares of the values that are guessed with a probability above ``CERTAIN``, and that masking leaves as they are; and
the difference of a correlation. The alerts have the same limits by default."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question: None if it is neither yes nor no, with a word for it; and the reasons."""

    question: str
    yes: bool | None
    reasons: tuple[str, ...] = ()
    word: str = NOT_KNOWN_YET


def verdict(latest: VersionFigures) -> tuple[Answer, Answer]:
    """Return whether a version protects values, and whether it keeps their meaning."""
    risks, changes = tuple(_risks(latest)), tuple(_changes(latest))
    kept = not changes if "masked" in latest.windows else None
    return _protected(latest, risks), Answer("Meaning kept", kept, changes)


def _protected(latest: VersionFigures, risks: tuple[str, ...]) -> Answer:
    """Return whether values are protected: in every record if the mechanism promises it, or on average only."""
    if risks or not latest.risk:
        return Answer("Protected", False if risks else None, risks)
    if any(risk.certainty is None for risk in latest.risk.values()):
        return Answer("Protected", None, ("nothing is promised about single records",), "on average only")
    return Answer("Protected", True)


def _risks(latest: VersionFigures) -> Iterator[str]:
    yield from latest.crossed
    for name, risk in latest.risk.items():
        if risk.certainty is not None and risk.certainty > CERTAIN and risk.prior <= CERTAIN:
            yield f"in some record, the value of {name} is known with a probability of {risk.certainty:.2f}"
        if risk.certain > MAX_CERTAIN and risk.prior <= CERTAIN:
            yield f"{risk.certain:.0%} of the values of {name} are guessed with a probability above {CERTAIN:g}"
        if risk.unchanged > MAX_UNCHANGED and risk.prior <= MAX_UNCHANGED:
            yield f"{risk.unchanged:.0%} of the values of {name} stay as they are"


def _changes(latest: VersionFigures) -> Iterator[str]:
    masked = latest.windows.get("masked")
    for pair, original in latest.windows["original"].correlation.items():
        after = original if masked is None else masked.correlation.get(pair, original)
        if abs(after - original) > MAX_CORRELATION_ERROR:
            yield f"sdCor of {' and '.join(pair)} is {after:.2f} instead of {original:.2f}"
