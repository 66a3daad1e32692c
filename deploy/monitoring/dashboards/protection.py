"""What an attacker learns."""

from __future__ import annotations

from panels import SHARE, Panel, Query, by_attribute, number
from queries import aggregated

from dashboards.model import Dashboard

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
            ),
            number(
                "Withheld versions",
                "Since the start.",
                aggregated("sum", "statistics_withheld_total"),
                "short",
                (1, "red"),
            ),
            number("Guessed records", "Given all masks.", aggregated("max", "risk_record_vulnerability"), SHARE),
            number("Unchanged records", "No value changes.", aggregated("max", "risk_record_unchanged_share"), SHARE),
        ],
        "Best guess of a value": [
            Panel(
                "Vulnerability",
                "Chance of the best guess of a value: without masks (prior), given its mask, or given its record's.",
                [
                    Query(aggregated("max", "risk_vulnerability", "attribute", "given"), "{{attribute}}, {{given}}"),
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
            Panel(
                "Chapters and blocks",
                "Chance of the best guess of the chapter or block of a value, given its mask or its record's.",
                [
                    Query(
                        aggregated("max", "risk_level_vulnerability", "attribute", "level", "given"),
                        "{{attribute}}, {{level}}, {{given}}",
                    ),
                    Query(
                        aggregated("max", "risk_level_prior", "attribute", "level"), "{{attribute}}, {{level}} prior"
                    ),
                ],
                SHARE,
                top=1,
            ),
            Panel(
                "RMSE",
                "Distance between originals and masks, beside the vulnerability.",
                [Query(aggregated("max", "rmse", "attribute", kind="actual"), "{{attribute}}")],
            ),
            Panel(
                "Share certain",
                "Values that are guessed with a probability above 0.9 and above 0.5.",
                [
                    Query(aggregated("max", "risk_certain_share", "attribute"), "{{attribute}} above 0.9"),
                    Query(aggregated("max", "risk_likely_share", "attribute"), "{{attribute}} above 0.5"),
                ],
                SHARE,
                top=1,
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
            Panel(
                "Bound of the figures of records",
                "They differ by no more from the truth, with 95 % confidence.",
                [Query(aggregated("max", "risk_bound"), "bound")],
            ),
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
            ),
            Panel(
                "Truncated and unsigned values",
                "Share of the window's values without a concept far enough, or on the right side.",
                [
                    Query(aggregated("max", "truncated_share", "attribute"), "{{attribute}} truncated"),
                    Query(aggregated("max", "unsigned_share", "attribute"), "{{attribute}} unsigned"),
                ],
                SHARE,
            ),
        ],
    },
)
