"""A proposal as YAML with a comment for each line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stream_masker.service.local.files import FileTotals
from stream_masker.service.local.proposal.attributes import ProposedAttributes
from stream_masker.service.local.proposal.treatment import ProposedTreatment

FLAG = "CHECK: "

DEFAULT_MIN_RECORDS: Final = 1000
"""The default of ``calibration.min_records``. A smaller sample is proposed with a smaller number."""


def proposal_text(
    data: Mapping[str, Any],
    *,
    attributes: ProposedAttributes,
    treatments: Mapping[str, ProposedTreatment],
    reasons: Mapping[str, str],
    totals: FileTotals,
    problem: str = "",
) -> str:
    """Return the text of a proposal. ``reasons``: why other keys have their values; ``problem``: of the rehearsal."""
    lines = [*_header(totals, treatments, problem)]
    for key, value in data.items():
        if key == "attributes":
            lines += ["attributes:"]
            lines += [f"  {name}: {flow(settings)}  # {attributes[name].why}" for name, settings in value.items()]
        elif key == "fields":
            lines += _fields(treatments)
        else:
            lines.append(f"{key}: {flow(value)}" + (f"  # {reasons[key]}" if key in reasons else ""))
    return "\n".join([*lines, "secret: {file: secret}", ""])


def _header(totals: FileTotals, treatments: Mapping[str, ProposedTreatment], problem: str) -> Iterator[str]:
    yield f"# Proposed for a sample of {totals.records:,} events by stream-masker config init. Check every line."
    outcome = "can be read" if problem else "are masked"
    yield f"# Of the sample, {totals.masked:,} {outcome}, {totals.rejections}."
    if problem and totals.masked < DEFAULT_MIN_RECORDS:
        yield "# It is too small to be masked by its own statistics: give more events, such as a folder of files."
    elif problem:
        yield f"# It cannot be masked by its own statistics: {problem}."
    for warning in totals.warnings:
        yield f"# {warning}."
    if flagged := sum(treatment.is_flagged for treatment in treatments.values()):
        which = (
            "1 dropped field may hold diagnoses or codes; it is"
            if flagged == 1
            else (f"{flagged:,} dropped fields may hold diagnoses or codes; they are")
        )
        yield f"# {which} marked {FLAG.strip(': ')}."


def field_sections(treatments: Mapping[str, ProposedTreatment]) -> dict[str, Any]:
    """Return the section ``fields`` of treatments by path."""
    fields: dict[str, Any] = {}
    for path, treatment in treatments.items():
        if treatment.value is None:
            fields.setdefault(treatment.key, []).append(path)
        else:
            fields.setdefault(treatment.key, {})[path] = treatment.value
    return {**fields, "unlisted": "drop"}


def _fields(treatments: Mapping[str, ProposedTreatment]) -> Iterator[str]:
    yield "fields:"
    for key in ("keep", "pseudonymize", "references", "pseudonyms", "generalize", "constant", "drop"):
        of_key = {path: treatment for path, treatment in treatments.items() if treatment.key == key}
        if of_key:
            yield f"  {key}:"
        for path, treatment in of_key.items():
            entry = f"- {flow(path)}" if treatment.value is None else f"{flow(path)}: {flow(treatment.value)}"
            yield f"    {entry}  # {FLAG if treatment.is_flagged else ''}{treatment.why}"
    yield "  unlisted: drop"


def flow(value: Any) -> str:
    """Return a value as YAML in one line; JSON is YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", value)
    words = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
    return value if plain and str(value).lower() not in words else json.dumps(value, ensure_ascii=False)
