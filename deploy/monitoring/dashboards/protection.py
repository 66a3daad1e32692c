"""What an attacker learns."""

from __future__ import annotations

from alerts import Thresholds
from panels import SHARE, Panel, Query, by_attribute, number
from queries import aggregated

from dashboards.model import Dashboard
from stream_masker.pipeline.calibration.risk import RiskLimits

AT = Thresholds()


def _levels(title: str, what: str, where: str) -> Panel:
    """Return a panel of the chance of the best guess of a kind of value; ``where``: which levels."""
    chance, prior = "risk_level_vulnerability", "risk_level_prior"
    return Panel(
        title,
        f"Chance of the best guess of {what}: without masks (prior), given its mask, or given its record's.",
        [
            Query(
                aggregated("max", chance, "attribute", "level", "given", where=where),
                "{{attribute}}, {{level}}, {{given}}",
            ),
            Query(aggregated("max", prior, "attribute", "level", where=where), "{{attribute}}, {{level}} prior"),
        ],
        SHARE,
        top=1,
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
                "Guessed records", "Given all masks.", aggregated("max", "risk_record_vulnerability"), SHARE, columns=5
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
                "Guessed and unchanged records differ by no more from the truth, with 95 % confidence.",
                aggregated("max", "risk_bound"),
                SHARE,
                columns=4,
            ),
        ],
        "Best guess of a value": [
            Panel(
                "Vulnerability",
                "Chance of the best guess of a value: without masks (prior), given its mask, or given its record's. "
                "Given its mask, no method that keeps the law and moves values as far can go below the least.",
                [
                    Query(aggregated("max", "risk_vulnerability", "attribute", "given"), "{{attribute}}, {{given}}"),
                    Query(aggregated("max", "risk_least_vulnerability", "attribute"), "{{attribute}} least"),
                    Query(aggregated("max", "risk_prior", "attribute"), "{{attribute}} prior"),
                ],
                SHARE,
                top=1,
            ),
            Panel(
                "Surest guess",
                "Greatest probability of a value over all masks that can be written; given the record where promised.",
                [Query(aggregated("max", "risk_certainty", "attribute", "given"), "{{attribute}}, {{given}}")],
                SHARE,
                top=1,
            ),
            _levels("Chapters", "the chapter of a value", 'level="chapter"'),
            _levels("Blocks", "the block of a value, or in graphs of a near value", 'level!="chapter"'),
            Panel(
                "Share certain",
                "Values that are guessed with a probability above 0.9 and above 0.5.",
                [
                    Query(aggregated("max", "risk_certain_share", "attribute"), "{{attribute}} above 0.9"),
                    Query(aggregated("max", "risk_likely_share", "attribute"), "{{attribute}} above 0.5"),
                ],
                SHARE,
                top=1,
                limits=[(RiskLimits().max_certain, "red")],
            ),
            by_attribute("Expected guesses", "Until the original of a mask is found.", "risk_expected_rank"),
            by_attribute("Uncertainty in bits", "About the original of a mask.", "risk_entropy"),
            Panel(
                "After repeats",
                "Chance of the best guess of a value after several masks of it.",
                [
                    Query(
                        aggregated("max", "risk_repeated_vulnerability", "attribute", "given"),
                        "{{attribute}}, {{given}}",
                    )
                ],
                SHARE,
                top=1,
            ),
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
            by_attribute("ε of the channel", "Infinite if a mask excludes an original.", "risk_epsilon"),
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
