"""The treatment of a field that is no attribute, by its name and its values, with the stricter treatment in doubt.

A text or a number is kept only if its name is known to be harmless. Codes, descriptions and free text are never kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from stream_masker.pipeline.paths import NameStep, compile_path
from stream_masker.service.files.proposal import names, values
from stream_masker.service.files.proposal.sample import SampledField

TreatmentKey: TypeAlias = Literal["keep", "pseudonymize", "references", "generalize", "constant", "drop"]
_ORDER: Final = ("keep", "pseudonymize", "references", "generalize", "constant", "drop")

TESTED_VALUES: Final = 1000
LEAST_DIFFERENT: Final = 50
"""A field of more different tokens than this can identify events."""

OLDEST: Final = 125


@dataclass(frozen=True, slots=True)
class ProposedTreatment:
    """The key below ``fields``, its value for the path, why, and whether a person must look at the field.

    is_standard: whether a standard defines the field, also if it is beside a code.
    """

    key: TreatmentKey
    value: Any
    why: str
    is_flagged: bool = False
    is_standard: bool = False

    @property
    def rank(self) -> int:
        """The place of the key in the proposal."""
        return _ORDER.index(self.key)


BESIDE_CODE: Final = ProposedTreatment("drop", None, "it stands beside a code and may tell it")

Rule: TypeAlias = Callable[[SampledField, Collection[str]], ProposedTreatment | None]


def treatment(field: SampledField, concepts: Callable[[str], bool]) -> ProposedTreatment:
    """Return the treatment of a field. ``concepts``: whether a text is a code or label of a known ontology."""
    tested = [value for value, _ in field.values.most_common(TESTED_VALUES)]
    fitting = next((treated for rule in _RULES if (treated := rule(field, tested)) is not None), None)
    if fitting is not None and (fitting.key != "keep" or not any(map(concepts, tested))):
        return fitting
    return ProposedTreatment("drop", None, f"{_different(field)} of unknown meaning")


def _different(field: SampledField, kind: str = "value") -> str:
    number = len(field.values)
    return f"a single {kind}" if number == 1 else f"{number:,} different {kind}s"


def is_person_id(field: SampledField) -> bool:
    """Return whether a field is the id of a person: by its name, and with values that have no spaces."""
    whole = " ".join(field.place.names)
    is_id = names.IDENTIFIER_NAMES.fits(field.name) or (field.name == "reference" and len(field.place.names) > 1)
    return bool(
        names.PERSON_NAMES.fits(whole)
        and (is_id or names.PERSON_NAMES.fits(field.name))
        and not names.PRIVATE_NAMES.fits(field.name)
        and not names.POSTCODE_NAMES.fits(field.name)
        and not names.AGE_NAMES.fits(field.name)
        and values.are_tokens(field.values)
        and not names.CLINICAL_NAMES.fits(field.name)
        and values.date_formats(list(field.values)[:TESTED_VALUES]) is None
    )


def _person(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    return ProposedTreatment("pseudonymize", None, "the name is that of a person's id") if is_person_id(field) else None


def _postcode(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    if not names.POSTCODE_NAMES.fits(field.name) or not all(len(value) <= 10 for value in tested):
        return None
    return ProposedTreatment("generalize", {"characters": 3}, "the name is that of a postcode")


def _dates(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    is_birth = _is_named(field, names.BIRTH_NAMES)
    is_named = is_birth or names.DATE_NAMES.fits(field.name) or names.YEAR_NAMES.fits(field.name)
    formats = values.date_formats(list(tested), is_named=is_named)
    if formats is None or ("float" in field.kinds) or names.IDENTIFIER_NAMES.fits(field.name):
        return None
    if values.are_in_future(tested, formats):
        why = "of the years with two digits some would be in the future: write them with four to keep a part of them"
        return ProposedTreatment("drop", None, why, is_flagged=True)
    form = {"date": "decade" if is_birth else "year", **({"formats": list(formats)} if formats else {})}
    why = "the values are dates, and the name is that of a date of birth" if is_birth else "the values are dates"
    return ProposedTreatment("generalize", form, why)


def whole_years(proposed: ProposedTreatment) -> ProposedTreatment:
    """Return the treatment with years instead of decades, for standards whose dates may be a year."""
    if proposed.key != "generalize" or proposed.value.get("date") != "decade":
        return proposed
    return replace(
        proposed, value={**proposed.value, "date": "year"}, why="the standard has no date coarser than a year"
    )


def _is_named(field: SampledField, kind: names.NameKind) -> bool:
    """Return whether a field has a name of a kind, alone or after that of the object around it."""
    return any(map(kind.fits, (field.name, " ".join(field.place.names[-2:]))))


def _birth_year(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    if not _is_named(field, names.BIRTH_YEAR_NAMES) or not values.are_numbers(tested, 1850, 2150):
        return None
    return ProposedTreatment("generalize", {"width": 10}, "the name is that of a year of birth")


def _age(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    if not names.AGE_NAMES.fits(field.name):
        return None
    if values.are_numbers(tested, 0, OLDEST):
        return ProposedTreatment("generalize", {"width": 5, "top": 90}, "the name is that of an age")
    return ProposedTreatment("keep", None, "the values are bands of ages") if values.are_bands(tested) else None


def _clinical(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    if values.look_coded(tested) and not _identifies(field) and not _is_number_of(field, names.HARMLESS_NAMES):
        why = "the values look like codes: name their ontology with --ontology, and write several of a text as a list"
    elif names.CLINICAL_NAMES.fits(field.name):
        why = "the name is that of a diagnosis, a procedure or a finding"
    else:
        return None
    return ProposedTreatment("drop", None, why, is_flagged=True)


def _private(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    private = any(names.PRIVATE_NAMES.fits(name) for name in field.place.names)
    return ProposedTreatment("drop", None, "the name is that of a private field or a description") if private else None


def _identifies(field: SampledField) -> bool:
    """Return whether the values are different tokens: numbers of events, of cases, or of persons."""
    named = names.IDENTIFIER_NAMES.fits(field.name) or names.CASE_NAMES.fits(field.name)
    many = len(field.values) > LEAST_DIFFERENT
    return values.are_tokens(field.values) and ((named and many) or (many and field.is_unique))


def _identifier(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    if not _identifies(field) or "float" in field.kinds:
        return None
    return ProposedTreatment("pseudonymize", None, f"{_different(field)}: it identifies events")


def _harmless(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    if not field.is_number and values.are_sexes(tested) and len(tested) > 1:
        return ProposedTreatment("keep", None, "the values are sexes")
    if _is_number_of(field, names.SEX_NAMES) and values.are_numbers(tested, 0, 9):
        return ProposedTreatment("keep", None, "the name is that of a person's sex")
    if _is_number_of(field, names.HARMLESS_NAMES) or (names.HARMLESS_NAMES.fits(field.name) and _are_harmless(tested)):
        why = f"{_different(field)} of a field that tells no diagnosis"
        return ProposedTreatment("keep", None, why)
    return None


def _is_number_of(field: SampledField, kind: names.NameKind) -> bool:
    return field.is_number and kind.fits(field.name)


def _are_harmless(tested: Collection[str]) -> bool:
    """Return whether texts are categories that neither look like codes nor name anything clinical."""
    telling = any(names.CLINICAL_NAMES.fits(text) or names.TELLING_VALUES.fits(text) for text in tested)
    return values.are_categories(tested) and not values.look_coded(tested) and not telling


def _dated_name(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    if not (names.DATE_NAMES.fits(field.name) or names.TIME_NAMES.fits(field.name)):
        return None
    why = "the name is that of a date, but its values are in no known format: give their formats to keep a part of them"
    return ProposedTreatment("drop", None, why, is_flagged=True)


def _free_text(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    if values.are_tokens(tested) or values.are_categories(tested):
        return None
    return ProposedTreatment("drop", None, f"{_different(field, 'text')}: free text is never kept")


_RULES: Final[tuple[Rule, ...]] = (
    _person,
    _postcode,
    _birth_year,
    _dates,
    _age,
    _clinical,
    _private,
    _identifier,
    _harmless,
    _dated_name,
    _free_text,
)
"""The rules in their order; the first that applies decides."""


def noise_key(fields: Iterable[SampledField], events: int) -> tuple[str, str]:
    """Return the noise key, and why: the person's id that all events have, and several of them share."""
    named = [field for field in fields if field.events == events and not _in_list(field) and is_person_id(field)]
    repeated = max(named, key=lambda field: (len(field.values) < events, -len(field.path)), default=None)
    if repeated is None:
        return "position", "no field is the id of a person that every event has; give the path of one if there is"
    return repeated.path, "every event has it: equal codes of a person get the same mask"


def _in_list(field: SampledField) -> bool:
    return any(not isinstance(step, NameStep) for step in compile_path(field.path).steps)
