"""A proposal as YAML with a comment for each line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stream_masker.service.files.proposal.attributes import ProposedAttributes
from stream_masker.service.files.proposal.treatment import ProposedTreatment

FLAG: Final = "CHECK: "


def proposal_text(
    data: Mapping[str, Any],
    *,
    attributes: ProposedAttributes,
    treatments: Mapping[str, ProposedTreatment],
    reasons: Mapping[str, str],
    outcome: str,
) -> str:
    """Return the text of a proposal. ``reasons``: why other keys have their values; ``outcome``: of the rehearsal."""
    lines = [
        "# Proposed for a sample of events by stream-masker config init. Check every line.",
        f"# {outcome}",
    ]
    if flagged := sum(treatment.is_flagged for treatment in treatments.values()):
        lines.append(f"# Dropped fields that may hold diagnoses or codes are marked {FLAG.strip(': ')}: {flagged:,}.")
    for key, value in data.items():
        if key == "attributes":
            lines += ["attributes:"]
            lines += [f"  {name}: {flow(settings)}  # {attributes[name].why}" for name, settings in value.items()]
        elif key == "fields":
            lines += _fields(treatments)
        else:
            lines.append(f"{key}: {flow(value)}" + (f"  # {reasons[key]}" if key in reasons else ""))
    return "\n".join([*lines, "secret: {file: secret}", ""])


def field_sections(treatments: Mapping[str, ProposedTreatment]) -> dict[str, Any]:
    """Return the section ``fields`` of treatments by path. Dropped fields need no entry."""
    fields: dict[str, Any] = {}
    for path, treatment in treatments.items():
        if treatment.key != "drop" and treatment.value is None:
            fields.setdefault(treatment.key, []).append(path)
        elif treatment.key != "drop":
            fields.setdefault(treatment.key, {})[path] = treatment.value
    return {**fields, "unlisted": "drop"}


def _fields(treatments: Mapping[str, ProposedTreatment]) -> Iterator[str]:
    yield "fields:"
    for key in ("keep", "pseudonymize", "references", "generalize"):
        of_key = {path: treatment for path, treatment in treatments.items() if treatment.key == key}
        if of_key:
            yield f"  {key}:"
        for path, treatment in of_key.items():
            entry = f"- {flow(path)}" if treatment.value is None else f"{flow(path)}: {flow(treatment.value)}"
            yield f"    {entry}  # {treatment.why}"
    yield "  unlisted: drop"
    for path, treatment in treatments.items():
        if treatment.key == "drop":
            yield f"  # dropped: {path}: {FLAG if treatment.is_flagged else ''}{treatment.why}"


def flow(value: Any) -> str:
    """Return a value as YAML in one line; JSON is YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", value)
    words = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
    return value if plain and str(value).lower() not in words else json.dumps(value, ensure_ascii=False)
