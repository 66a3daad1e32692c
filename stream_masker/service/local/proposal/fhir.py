"""The treatment of the fields of FHIR resources in a proposal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stream_masker.service.local.proposal.sample import SampledField
from stream_masker.service.local.proposal.treatment import ProposedTreatment, treatment

_ADMINISTRATIVE: Final = frozenset(
    {"type", "method", "use", "intent", "status", "gender", "outcome", "sequence", "currency"}
)
_REFERENCE: Final = ProposedTreatment("references", None, "a reference or an id: its type stays")
_KEPT: Final = ProposedTreatment("keep", None, "an administrative code of FHIR")


def treated(field: SampledField, concepts: Callable[[str], bool]) -> tuple[str, ProposedTreatment]:
    """Return the path that is treated, and its treatment: a reference is treated with its type."""
    names = field.place.names
    if field.name == "reference" and len(names) > 2:
        return field.place.parent, _REFERENCE
    if (field.name == "id" and len(names) == 2) or names[-2:] == ("entry", "fullUrl"):
        return field.path, _REFERENCE
    if _is_administrative(names):
        return field.path, _KEPT
    return field.path, treatment(field, concepts)


def _is_administrative(names: tuple[str, ...]) -> bool:
    direct = len(names) == 2 or names[:3] == ("Bundle", "entry", "request")
    status = len(names) > 2 and (names[1].endswith("Status") or names[1] == "class") and names[-1] in {"system", "code"}
    return (direct and names[-1] in _ADMINISTRATIVE) or status
