"""The fields of HL7 v2 messages that the standard defines, in a proposal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from stream_masker.service.files.proposal.sample import SampledField
from stream_masker.service.files.proposal.treatment import ProposedTreatment, treatment, whole_years

_KEPT: Final = ProposedTreatment("keep", None, "the standard defines its values", is_standard=True)
_PSEUDONYM: Final = ProposedTreatment("pseudonymize", None, "the standard defines it as an id", is_standard=True)
_UNLISTED: Final = ProposedTreatment("drop", None, "the standard does not say that it is harmless")
_NAME: Final = ProposedTreatment("constant", "masked", "a name, which the standard requires", is_standard=True)

_DATED: Final = frozenset({"MSH", "EVN", "PID", "PV1", "PV2", "DG1", "PR1"})
"""Segments whose dates become coarser; those of relatives, staff and insurance are dropped."""

_ENVELOPE: Final = frozenset({"MSH", "EVN", "SFT", "BTS", "FTS"})
"""Segments about the message itself, which have no codes of diagnoses."""

_PERSON: Final = ("PID.3.1", "PID.2.1", "PID.18.1")
_STANDARD: Final[Mapping[str, ProposedTreatment]] = {
    **dict.fromkeys(("EVN.1.1", "PID.8.1", "PV1.2.1", "DG1.1.1", "DG1.6.1", "DG1.15.1", "PR1.1.1"), _KEPT),
    **dict.fromkeys(("PID.1.1", "PV1.1.1", "DG1.3.3", "PR1.3.3", "PID.3.5"), _KEPT),
    **dict.fromkeys((*_PERSON, "PV1.19.1"), _PSEUDONYM),
    "PID.5.1": _NAME,
}


def may_be_coded(field: SampledField) -> bool:
    """Return whether a value of a message may be a code or its label: the first two components of a field may."""
    segment, _, component, *sub = field.place.names
    return segment not in _ENVELOPE and _standard(field) is None and component in ("1", "2") and not sub


def _standard(field: SampledField) -> ProposedTreatment | None:
    return _STANDARD.get(".".join(field.place.names))


def hl7_treatment(field: SampledField, is_concept: Callable[[str], bool]) -> tuple[str, ProposedTreatment] | None:
    """Return the path and the treatment of a value of a message; None for the header, which has its own rules."""
    if (standard := _standard(field)) is not None:
        return field.path, standard
    proposed = whole_years(treatment(field, is_concept))
    segment = field.place.names[0]
    if proposed.key == "generalize" and segment in _DATED:
        return field.path, proposed
    return None if segment == "MSH" else (field.path, proposed if proposed.key == "drop" else _UNLISTED)


def hl7_noise_key(fields: Mapping[str, SampledField], events: int) -> tuple[str, str]:
    """Return the noise key, and why: the patient's id if all messages have it."""
    person = next((path for path in _PERSON if path in fields and fields[path].events == events), None)
    if person is None:
        return "position", "no id of the patient is in every message; give the path of one if there is"
    return person, "every message has it: equal codes of a patient get the same mask"
