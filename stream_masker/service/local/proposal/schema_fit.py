"""Treatments that fit the schema of the records: where a coarser value does not, the field is left out or constant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from stream_masker.errors import StatisticsError
from stream_masker.service.local.proposal.document import field_sections, flow
from stream_masker.service.local.proposal.rehearsal import FieldTrial, Rehearsal
from stream_masker.service.local.proposal.sample import SampledField
from stream_masker.service.local.proposal.treatment import ProposedTreatment

_OF_TOPICS: Final = "write a schema of masked records (format.write: latest)"
_OF_FILES: Final = "mask into a .jsonl file"
_MIDNIGHT: Final = "1970-01-01T00:00:00+00:00"
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(T.*)?")


def fitting_treatments(
    data: Mapping[str, Any],
    treatments: Mapping[str, ProposedTreatment],
    fields: Mapping[str, SampledField],
    rehearsal: Rehearsal,
) -> dict[str, ProposedTreatment]:
    """Return treatments with which masked records fit their schema, as far as there are such treatments.

    A rejection names the first field that does not fit, so records are masked again after each change. A field is
    dropped; where the schema requires it, it is constant. Without statistics nothing is changed.
    """
    fitting = dict(treatments)
    if rehearsal.record_format is None:
        return fitting
    try:
        trial = FieldTrial(data, rehearsal)
    except StatisticsError:
        return fitting
    names = {path: ".".join(fields[path].place.names) for path in fitting if path in fields}
    for _ in range(2 * len(names)):
        misfits = set(map(_plain, trial.misfits({**data, "fields": field_sections(fitting)})))
        misfitting = [path for path, name in names.items() if name in misfits and fitting[path].key != "constant"]
        if not misfitting:
            break
        for path in misfitting:
            why = _misfit(treatments[path], _OF_TOPICS if "format" in data else _OF_FILES)
            fitting[path] = _constant(fields[path], why) if fitting[path].key == "drop" else _dropped(why)
    return fitting


def _plain(field: str) -> str:
    """Return the name of a schema's field without the elements of lists."""
    return re.sub(r"\[[^]]*\]", "", field)


def _misfit(proposed: ProposedTreatment, remedy: str) -> str:
    """Say why a treatment is not that which its field would have without the schema."""
    if proposed.key == "drop":
        return proposed.why
    value = "" if proposed.value is None else f": {flow(proposed.value)}"
    return f"what {proposed.key}{value} makes of it does not fit the schema: to use that, {remedy}"


def _dropped(why: str) -> ProposedTreatment:
    return ProposedTreatment("drop", None, why)


def _constant(field: SampledField, why: str) -> ProposedTreatment:
    """Return a constant of the field's type; texts of digits may be 64-bit integers of Protobuf, or decimals."""
    value: Any = "masked"
    if field.is_number:
        value = 0
    elif set(field.kinds) == {"bool"}:
        value = False
    elif all(map(_NUMBER.fullmatch, field.values)):
        value = "0"
    else:
        dates = [_DATE.fullmatch(text) for text in field.values]
        if all(dates):
            value = _MIDNIGHT if any(date and date[1] for date in dates) else _MIDNIGHT[:10]
    return ProposedTreatment("constant", value, f"the schema requires it; {why}")
