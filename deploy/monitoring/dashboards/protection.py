"""What an attacker learns."""

from __future__ import annotations

from typing import Any

from alerts import Thresholds
from panels import SHARE, Panel, Query, by_attribute, number
from queries import aggregated

from dashboards.model import Dashboard
from stream_masker.pipeline.risk import RiskLimits

AT = Thresholds()


ALL, OWN = 'given="record"', 'given="value"'


def _guesses(title: str, what: str, given: str, *, level: str = "") -> Panel:
    """Return a panel of the chance of the best guess of a value, or of its kind; ``level``: which levels."""
    name, labels = ("risk_level", ("attribute", "level")) if level else ("risk", ("attribute",))
    legend = ", ".join(f"{{{{{label}}}}}" for label in labels)
    where = ", ".join(part for part in (level, given) if part)
    return Panel(
        title,
        f"Chance of the best guess of {what}, and without masks (prior).",
        [
            Query(aggregated("max", f"{name}_vulnerability", *labels, where=where), legend),
            Query(aggregated("max", f"{name}_prior", *labels, where=level), f"{legend} prior"),
        ],
        SHARE,
        top=1,
    )


def _shares(title: str, masks: str, given: str, **options: Any) -> Panel:
    """Return a panel of the shares of values whose best guess is right with a high probability."""
    return Panel(
        title,
        f"Values that are guessed from {masks} with a probability above 0.9 and above 0.5.",
        [
            Query(aggregated("max", "risk_certain_share", "attribute", where=given), "{{attribute}} above 0.9"),
            Query(aggregated("max", "risk_likely_share", "attribute", where=given), "{{attribute}} above 0.5"),
        ],
        SHARE,
        top=1,
        **options,
    )


PROTECTION = Dashboard(
    "protection",
    "Protection",
    "What an attacker learns who knows all but the secret.",
    {
        "Limits": [
            number(
                "Crossed limits",
                "Limits of the section risk.",
                aggregated("max", "risk_limits_crossed"),
                "short",
                (1, "red"),
                columns=5,
            ),
            number(
                "Withheld versions",
                "Since the start.",
                aggregated("sum", "statistics_withheld_total"),
                "short",
                (1, "red"),
                columns=5,
            ),
            number(
                "Unchanged records",
                "No value changes.",
                aggregated("max", "risk_record_unchanged_share"),
                SHARE,
                columns=5,
            ),
            number(
                "Error of estimates",
                "Chances and shares differ by no more from the truth, with 95 % confidence.",
                aggregated("max", "risk_bound"),
                SHARE,
                columns=4,
            ),
        ],
        "From all masks of the record": [
            _guesses("Values", "a value", ALL),
            _guesses("Chapters", "the chapter of a value", ALL, level='level="chapter"'),
            _guesses("Blocks", "the block of a value", ALL, level='level="block"'),
            _shares("Share certain", "all masks of their record", ALL),
            Panel(
                "Surest guess",
                "Greatest probability of a value over all records that can be written, where something is promised.",
                [Query(aggregated("max", "risk_certainty", "attribute", where=ALL), "{{attribute}}")],
                SHARE,
                top=1,
            ),
        ],
        "From a value's own mask": [
            _guesses("Values", "a value", OWN),
            _guesses("Chapters", "the chapter of a value", OWN, level='level="chapter"'),
            _guesses("Blocks", "the block of a value", OWN, level='level="block"'),
            _shares("Share certain", "their own masks", OWN, limits=[(RiskLimits().max_certain, "red")]),
            Panel(
                "Surest guess",
                "Greatest probability of a value over all masks that can be written.",
                [Query(aggregated("max", "risk_certainty", "attribute", where=OWN), "{{attribute}}")],
                SHARE,
                top=1,
            ),
        ],
        "Records": [
            Panel(
                "Linked records",
                "Share of 1,000 random records whose nearest masked record is their own.",
                [Query(aggregated("max", "risk_linked_share"), "linked")],
                SHARE,
                top=1,
            ),
            Panel(
                "Unique pairs",
                "Rows whose pair of values no other row of the window has.",
                [Query(aggregated("max", "risk_unique_share", "records"), "{{records}}")],
                SHARE,
            ),
            by_attribute("Share unchanged", "Values that stay.", "risk_unchanged_share", unit=SHARE, top=1.0),
        ],
        "Values as masked": [
            Panel(
                "Unchanged values",
                "Share of the window's values that masking left, and of its records in which it left all.",
                [
                    Query(aggregated("max", "unchanged_share", "attribute"), "{{attribute}}"),
                    Query(aggregated("max", "unchanged_records_share"), "whole records"),
                ],
                SHARE,
                top=1,
                limits=[(float(AT.unchanged), "red")],
            ),
            Panel(
                "Truncated and unsigned values",
                "Share of the window's values without a concept far enough, or on the right side.",
                [
                    Query(aggregated("max", "truncated_share", "attribute"), "{{attribute}} truncated"),
                    Query(aggregated("max", "unsigned_share", "attribute"), "{{attribute}} unsigned"),
                ],
                SHARE,
                limits=[(float(AT.truncated), "orange")],
            ),
        ],
    },
)
