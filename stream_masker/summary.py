"""Sentences about masked records: what an attacker learns, which codes stay, what statistics keep; and about drift.

Every place that reports masked records uses these sentences: the commands, tables in Python, the page and the logs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from stream_masker.core.risk.risk import Guess, Risk
from stream_masker.core.statistics.statistics import Statistics

MAX_UNCHANGED, NOTABLE = 0.5, 0.05
"""The share of records above which a warning says that masking leaves most of them as they were; and how much lower
another mechanism's chance of the best guess is when it is named."""

ATTACKER = "An attacker who knows all frequencies of codes and pairs, but not the secret,"
"""The attacker of the first sentence, who knows the distribution that the statistics hold, but no whole events."""


def three_sentences(
    risk: Risk | None,
    *,
    promise: float | None = None,
    unchanged: Mapping[str, float] | None = None,
    unchanged_records: float | None = None,
    before: Statistics | None = None,
    after: Statistics | None = None,
    preserves: Collection[str] = (),
) -> tuple[str, str, str]:
    """Return the three sentences: what an attacker learns, what stays as it was, and what is kept.

    * ``risk``: the risk of the statistics in force; None if it is not known. ``promise``: ``Mechanism.promise``.
    * ``unchanged``, ``unchanged_records``: the shares of each attribute's codes and of records that masking left as
      they were; None: those that ``risk`` expects.
    * ``before``, ``after``: the statistics of the originals and of the masks, as they may be published; None: the third
      sentence states what the mechanism preserves.
    * ``preserves``: ``Mechanism.preserves`` of the mechanism.
    """
    if risk is not None:
        unchanged = risk.unchanged if unchanged is None else unchanged
        unchanged_records = risk.unchanged_records if unchanged_records is None else unchanged_records
    shares = [f"{share:.0%} of the codes of {name}" for name, share in (unchanged or {}).items()]
    shares += [] if unchanged_records is None else [f"{unchanged_records:.0%} of the records"]
    stays = f"{_listed(shares)} stay as they were." if shares else "How many codes stay as they were is not known here."
    if before is not None and after is not None:
        kept = _kept(before, after)
    else:
        kept = f"Kept in expectation: {_listed(list(preserves))}." if preserves else "What is kept is not known."
    return _learned(risk, promise), stays, kept


def unchanged_warning(share: float, mechanism: str) -> str | None:
    """Return a warning if masking leaves most records as they were; ``share``: of all records that have values."""
    if share <= MAX_UNCHANGED:
        return None
    return (
        f"{mechanism} leaves {share:.0%} of the records as they were, with all their codes: use a greater alpha or "
        "another mechanism"
    )


def guessed_line(chances: Mapping[str, float], unknown: str = "not known") -> str:
    """Return how often an attacker guesses a code right, and how often with another mechanism if that is notable.

    ``chances``: the chance of the best guess by mechanism, that of the one that runs first; empty if it is not known.
    ``unknown``: what is said then.
    """
    own = next(iter(chances.values()), 0.0)
    notable = [f"with {name} {chance:.0%}" for name, chance in chances.items() if own - chance > NOTABLE]
    guessed = "; ".join([f"{own:.0%}" if chances else unknown, *notable])
    return f"Guessed right: {guessed}. This is how often an attacker guesses a code from all masks of its record."


def _learned(risk: Risk | None, promise: float | None) -> str:
    if risk is None and promise is None:
        return "How sure the masks make an attacker of single codes is not known here; nothing is promised about them."
    if risk is None:
        return (
            f"{ATTACKER} can be at most {_at_most(promise or 0.0)} sure of a code, unless it is more frequent; how "
            "often guesses are right is known where the statistics were computed."
        )
    exact = all(learned.error == 0.0 for learned in risk.strongest.values())
    sure, cases = _worst(risk.strongest, 0.0 if exact else promise or 0.0)
    chapters = {name: learned.levels["chapter"] for name, learned in risk.strongest.items()}
    sure_of_chapter, cases_of_chapter = _worst(chapters, 0.0)
    guesses = f"the best guess of a code is right in {cases}, and that of its chapter in {cases_of_chapter}."
    if promise is None:
        begin = f"Nothing is promised about single records: some masks make an attacker {sure} sure of a code"
    else:
        begin = f"{ATTACKER} can be at most {sure} sure of a code"
    return f"{begin} and {sure_of_chapter} of its chapter; {guesses}"


def _worst(guesses: Mapping[str, Guess], promise: float) -> tuple[str, str]:
    """Return how sure an attacker can be, and how often the best guess is right: the highest figures of all attributes.

    ``promise``: how sure he can be in any case, where not all that can be written was drawn.
    """
    name, guess = max(guesses.items(), key=lambda item: item[1].vulnerability)
    place = f" for {name}" if len(guesses) > 1 else ""
    cases = f"{guess.vulnerability:.0%} of the cases{place} ({guess.prior:.0%} without masks)"
    return _at_most(max(promise, *(each.greatest for each in guesses.values()))), cases


def _at_most(share: float) -> str:
    """Return a share in percent, rounded up; what is not representable does not count."""
    return f"{ceil(share * 100 - 1e-4):d}%"


def _kept(before: Statistics, after: Statistics) -> str:
    """Return what is kept, from the statistics of the originals and of the masks."""
    names = before.attributes
    moved = [name for name in names if before.mean[name] != after.mean[name]]
    means = _listed([f"the mean of {name} moves from {before.mean[name]} to {after.mean[name]}" for name in moved])
    dispersion = max((abs(after.variance[name] - before.variance[name]) for name in names), default=0.0)
    parts = [means or "every mean stays the same concept", f"dispersions change by at most {dispersion:.3f}"]
    if len(names) > 1:
        change = np.triu(after.correlation_change(before), 1).max()
        parts.append(f"correlations by at most {change:.3f}")
    text = _listed(parts)
    return f"{text[0].upper()}{text[1:]}."


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


@dataclass(frozen=True, slots=True, eq=False)
class MaskingReport:
    """What masking did to records: its ``repr`` is the three sentences.

    ``mechanism``: its name. The others are those of ``three_sentences``; ``unchanged`` is of masked records.
    """

    mechanism: str
    risk: Risk
    unchanged: Mapping[str, float]
    unchanged_records: float
    before: Statistics
    after: Statistics
    promise: float | None = None

    @property
    def sentences(self) -> tuple[str, str, str]:
        """What an attacker learns, what stays as it was, and what is kept."""
        return three_sentences(
            self.risk,
            promise=self.promise,
            unchanged=self.unchanged,
            unchanged_records=self.unchanged_records,
            before=self.before,
            after=self.after,
        )

    def __repr__(self) -> str:
        """Return the mechanism and the three sentences, one a line."""
        return "\n".join((f"{self.mechanism}, {self.before.records:,} records", *self.sentences))

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON-serialisable data."""
        return {
            "mechanism": self.mechanism,
            "sentences": list(self.sentences),
            "risk": self.risk.to_dict(),
            "unchanged": dict(self.unchanged),
            "unchanged_records": self.unchanged_records,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
        }


FIGURES = {
    "psi_blocks": "PSI of blocks",
    "psi_codes": "PSI of codes",
    "divergence_blocks": "Jensen-Shannon divergence of blocks",
    "divergence_codes": "Jensen-Shannon divergence of codes",
    "energy": "energy distance",
    "mean": "distance of the means",
    "variance": "difference of sVar",
    "novel": "share of new codes",
    "correlation": "difference of sdCor",
}
"""What the figures of drift are called for people."""

TO_DO: Mapping[str, str] = {
    "none": "nothing to do: random samples of the same data differ as much",
    "watch": "look at the codes that moved, and wait for the next version: more than chance, but small",
    "act": "find out whether patients, coding or a source have changed; if it is to stay, renew the baseline with "
    "`stream-masker calibrate --publish --baseline`",
}
"""What an operator does at each verdict."""

MOST_NAMED = 3
"""The number of figures, and of codes that moved, in a line."""


def drift_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about drift for people; ``report``: as ``Drift.to_dict`` returns it."""
    yield f"drift since version {report['since']}: {report['verdict']}"
    pairs = {", ".join(pair["attributes"]): {"correlation": pair["correlation"]} for pair in report["pairs"]}
    found = {name: attribute["figures"] for name, attribute in report["attributes"].items()} | pairs
    for name, figures in found.items():
        beyond = [(kind, figure) for kind, figure in figures.items() if figure["verdict"] != "none"]
        texts = [
            f"{FIGURES[kind]} {figure['value']:.3f} (without drift at most {figure['limit']:.3f})"
            for kind, figure in sorted(beyond, key=lambda one: one[1]["verdict"])[:MOST_NAMED]
        ]
        if texts:
            yield f"  {name}: {', '.join(texts)}"
        moved = [one for one in report["attributes"].get(name, {"moved": []})["moved"] if one["level"] == "codes"]
        if texts and moved:
            yield "    moved most: " + "; ".join(map(moved_text, moved[:MOST_NAMED]))
    yield f"  what to do: {TO_DO[report['verdict']]}"


def moved_text(one: Mapping[str, Any]) -> str:
    """Return a code that moved with its label and shares; ``one``: as in ``drift_lines``."""
    label = f" {one['label']}" if one["label"] else ""
    return f"{one['concept']}{label}, {one['before']:.1%} -> {one['now']:.1%}"
