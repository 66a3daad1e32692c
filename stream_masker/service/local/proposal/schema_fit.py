"""Treatments that fit the schema of the records: where a coarser value does not, the field is left out or constant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from stream_masker.errors import StatisticsError
from stream_masker.service.local.proposal.document import field_sections
from stream_masker.service.local.proposal.rehearsal import FieldTrial
from stream_masker.service.local.proposal.sample import SampledField
from stream_masker.service.local.proposal.treatment import ProposedTreatment

_REMEDY: Final = "to keep a part of it, write a schema of masked records (format.write: latest)"
_DROPPED: Final = ProposedTreatment("drop", None, f"what would replace it does not fit the schema: {_REMEDY}")
_MIDNIGHT: Final = "1970-01-01T00:00:00+00:00"
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(T.*)?")


def fitting_treatments(
    data: Mapping[str, Any],
    treatments: Mapping[str, ProposedTreatment],
    fields: Mapping[str, SampledField],
    records: Sequence[bytes],
) -> dict[str, ProposedTreatment]:
    """Return treatments with which masked records fit their schema, as far as there are such treatments.

    A rejection names the first field that does not fit, so records are masked again after each change. A field is
    dropped; where the schema requires it, it is constant. Without statistics nothing is changed.
    """
    fitting = dict(treatments)
    if "format" not in data:
        return fitting
    try:
        trial = FieldTrial(data, records)
    except StatisticsError:
        return fitting
    names = {path: ".".join(fields[path].place.names) for path in fitting if path in fields}
    for _ in range(2 * len(names)):
        misfits = set(map(_plain, trial.misfits({**data, "fields": field_sections(fitting)})))
        changes = {path: _stricter(fitting[path], fields[path]) for path, name in names.items() if name in misfits}
        if all(fitting[path] == changed for path, changed in changes.items()):
            break
        fitting |= changes
    return fitting


def _plain(field: str) -> str:
    """Return the name of a schema's field without the elements of lists."""
    return field.replace("[*]", "")


def _stricter(current: ProposedTreatment, field: SampledField) -> ProposedTreatment:
    if current.key == "constant":
        return current
    return _constant(field) if current.key == "drop" else _DROPPED


def _constant(field: SampledField) -> ProposedTreatment:
    """Return a constant of the field's type."""
    value: Any = "masked"
    if field.is_number:
        value = 0
    elif set(field.kinds) == {"bool"}:
        value = False
    else:
        dates = [_DATE.fullmatch(text) for text in field.values]
        if all(dates):
            value = _MIDNIGHT if any(date and date[1] for date in dates) else _MIDNIGHT[:10]
    return ProposedTreatment("constant", value, f"the schema requires it, and has no place for a part of it: {_REMEDY}")
