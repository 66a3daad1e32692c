"""The treatment of a field that is no attribute, by its name and its values: what is not known is dropped.

Names are compared word by word, without accents and case: ``patientId``, ``PATIENT_ID`` and ``Patient-ID`` have the
same words. A *stem* is part of a word (``geburt`` in ``Geburtsdatum``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Final, Literal, TypeAlias

from stream_masker.pipeline.dates import find_date
from stream_masker.pipeline.paths import NameStep, compile_path
from stream_masker.service.files.proposal.sample import SampledField

TreatmentKey: TypeAlias = Literal["keep", "pseudonymize", "references", "generalize", "drop"]

TESTED_VALUES: Final = 1000
LEAST_DIFFERENT: Final = 50
"""A field of more different tokens than this can identify events."""

LEAST_DATES: Final = 0.9
LEAST_CODES: Final = 0.3
"""The least shares of a field's different values that are dates, or look like codes."""

OLDEST: Final = 125

_DAYS: Final = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y-%m-%d", "%Y%m%d")
_TIMES: Final = ("", " %H:%M", " %H:%M:%S", "%H%M", "%H%M%S")
DATE_FORMATS: Final = (*(day + time for day, time in product(_DAYS, _TIMES)), "%m/%Y", "%m.%Y", "%Y-%m")
"""The formats of dates and months that are looked for, beside ISO 8601."""

_CODE: Final = re.compile(
    r"(?=\S{3,16}(?:\s|$))(?:[A-Z]{1,6}[:_]?\d|\d{1,8}[-./]\d|\d{2}[A-Z]\d|\d(?=[0-9A-Z]*[A-Z]))\S*"
)
"""The first word of a text with a code: a few letters and digits, such as E11.9, 5-470.11, 2093-3, HP:0001250."""

_SEXES: Final = "m f w d x u male female other unknown männlich weiblich divers unbekannt homme femme"


@dataclass(frozen=True, slots=True)
class ProposedTreatment:
    """The key below ``fields``, its value for the path, why, and whether a person must look at the field."""

    key: TreatmentKey
    value: Any
    why: str
    is_flagged: bool = False


BESIDE_CODE: Final = ProposedTreatment("drop", None, "it stands beside a code and may tell it")


@dataclass(frozen=True, slots=True)
class NameKind:
    """The words and stems by which names of a kind are known."""

    words: frozenset[str]
    stems: tuple[str, ...] = ()

    def fits(self, name: str) -> bool:
        """Return whether a name is of the kind."""
        words = _name_words(name)
        return any(word in self.words or any(stem in word for stem in self.stems) for word in (*words, "".join(words)))


@cache
def _name_words(name: str) -> tuple[str, ...]:
    plain = "".join(c for c in unicodedata.normalize("NFKD", name.replace("ß", "ss")) if not unicodedata.combining(c))
    return tuple(map(str.lower, re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", plain)))


def _kind(words: str, stems: str = "") -> NameKind:
    return NameKind(frozenset(words.split()), tuple(stems.split()))


PERSON_NAMES: Final = _kind(
    "pat patnr patid mrn pid member nhs kvnr", "patient pacient pazient subject person insured versicher"
)
IDENTIFIER_NAMES: Final = _kind(
    "id ids nr no num number key uuid identifier reference mrn pid kvnr patid patnr", "nummer numero"
)
PRIVATE_NAMES: Final = _kind(
    "text note notes city street ort tel",
    "name address adress phone mail strasse kontakt comment komment remark bemerk",
)
POSTCODE_NAMES: Final = _kind("zip zipcode plz cap cep npa", "postal postcode postleitzahl")
AGE_NAMES: Final = _kind("age ages alter edad idade eta leeftijd alder wiek", "patientenalter")
BIRTH_YEAR_NAMES: Final = _kind("yob", "geburtsjahr gebjahr birthyear yearofbirth anneedenaissance anneenaissance")
BIRTH_NAMES: Final = _kind("dob geb gebdat", "birth geburt naissance nacimiento nascita geboorte")


def treatment(field: SampledField, is_concept: Callable[[str], bool]) -> ProposedTreatment:
    """Return the treatment of a field. ``is_concept``: whether a text is a code or label of a known ontology."""
    tested = [value for value, _ in field.values.most_common(TESTED_VALUES)]
    named = _by_name(field, tested)
    if named is not None:
        return named
    if (dated := _dates(field, tested)) is not None:
        return dated
    if _identifies(field):
        return ProposedTreatment("pseudonymize", None, f"{_different(field)}: it identifies events")
    if (
        not any(map(is_concept, tested))
        and len(tested) > 1
        and all(t.strip().casefold() in _SEXES.split() for t in tested)
    ):
        return ProposedTreatment("keep", None, "the values are sexes")
    if _look_coded(tested):
        why = "the values look like codes: name their ontology with --ontology, and write several of a text as a list"
        return ProposedTreatment("drop", None, why, is_flagged=True)
    return ProposedTreatment("drop", None, f"{_different(field)} of unknown meaning")


def _by_name(field: SampledField, tested: Collection[str]) -> ProposedTreatment | None:
    name = field.name
    if is_person_id(field):
        return ProposedTreatment("pseudonymize", None, "the name is that of a person's id")
    if POSTCODE_NAMES.fits(name) and all(len(value) <= 10 for value in tested):
        return ProposedTreatment("generalize", {"characters": 3}, "the name is that of a postcode")
    if _is_named(field, BIRTH_YEAR_NAMES) and _are_numbers(tested, 1850, 2150):
        return ProposedTreatment("generalize", {"width": 10}, "the name is that of a year of birth")
    if AGE_NAMES.fits(name) and _are_numbers(tested, 0, OLDEST):
        return ProposedTreatment("generalize", {"width": 5, "top": 90}, "the name is that of an age")
    if any(map(PRIVATE_NAMES.fits, field.place.names)):
        return ProposedTreatment("drop", None, "the name is that of a private field or a description")
    return None


def _dates(field: SampledField, tested: Sequence[str]) -> ProposedTreatment | None:
    formats = date_formats(tested)
    if formats is None or "float" in field.kinds or IDENTIFIER_NAMES.fits(field.name):
        return None
    is_birth = _is_named(field, BIRTH_NAMES)
    form = {"date": "decade" if is_birth else "year", **({"formats": list(formats)} if formats else {})}
    why = "the values are dates" + (", and the name is that of a date of birth" if is_birth else "")
    return ProposedTreatment("generalize", form, why)


def whole_years(proposed: ProposedTreatment) -> ProposedTreatment:
    """Return the treatment with years instead of decades, for standards whose dates may be a year."""
    if proposed.key != "generalize" or proposed.value.get("date") != "decade":
        return proposed
    value = {**proposed.value, "date": "year"}
    return ProposedTreatment("generalize", value, "the standard has no date coarser than a year")


def is_person_id(field: SampledField) -> bool:
    """Return whether a field is the id of a person: by its name, and with values that have no spaces."""
    is_id = IDENTIFIER_NAMES.fits(field.name) or (field.name == "reference" and len(field.place.names) > 1)
    others = (PRIVATE_NAMES, POSTCODE_NAMES, AGE_NAMES, BIRTH_NAMES)
    return bool(
        PERSON_NAMES.fits(" ".join(field.place.names))
        and (is_id or PERSON_NAMES.fits(field.name))
        and not any(kind.fits(field.name) for kind in others)
        and _are_tokens(field.values)
        and date_formats(list(field.values)[:TESTED_VALUES]) is None
    )


def _is_named(field: SampledField, kind: NameKind) -> bool:
    """Return whether a field has a name of a kind, alone or after that of the object around it."""
    return any(map(kind.fits, (field.name, " ".join(field.place.names[-2:]))))


def _identifies(field: SampledField) -> bool:
    """Return whether the values are different tokens: numbers of events, of cases, or of persons."""
    many = len(field.values) > LEAST_DIFFERENT and "float" not in field.kinds and _are_tokens(field.values)
    return many and (field.is_unique or IDENTIFIER_NAMES.fits(field.name))


def _different(field: SampledField) -> str:
    number = len(field.values)
    return "a single value" if number == 1 else f"{number:,} different values"


def _are_numbers(values: Iterable[str], low: float, high: float) -> bool:
    try:
        return all(low <= float(value) <= high for value in values)
    except ValueError:
        return False


def _are_tokens(values: Iterable[str]) -> bool:
    return not any(re.search(r"\s", value.strip()) for value in values)


def _look_coded(values: Collection[str]) -> bool:
    return sum(looks_coded(value) for value in values) >= LEAST_CODES * len(values)


def looks_coded(text: str) -> bool:
    """Return whether a text looks like a code of a classification, alone, before a label, or behind ``|``."""
    return _CODE.match(text.rpartition("|")[2].strip().upper()) is not None


def date_formats(values: Sequence[str]) -> tuple[str, ...] | None:
    """Return the formats of dates beside ISO 8601; None if less than ``LEAST_DATES`` of the values are dates."""
    rest = [value for value in values if not _is_date(value, ())]
    formats: list[str] = []
    while rest:
        best = max(DATE_FORMATS, key=lambda form: sum(_is_date(value, (form,)) for value in rest))
        left = [value for value in rest if not _is_date(value, (best,))]
        if len(left) == len(rest):
            break
        rest, formats = left, [*formats, best]
    return tuple(formats) if values and len(rest) <= (1 - LEAST_DATES) * len(values) else None


def _is_date(value: str, formats: Sequence[str]) -> bool:
    date = find_date(value, formats)
    return date is not None and 1850 <= date.date.year <= 2150


def noise_key(fields: Iterable[SampledField], events: int) -> tuple[str, str]:
    """Return the noise key, and why: the person's id that all events have, and several of them share."""
    named = [field for field in fields if field.events == events and not _in_list(field) and is_person_id(field)]
    repeated = max(named, key=lambda field: (len(field.values) < events, -len(field.path)), default=None)
    if repeated is None:
        return "position", "no field is the id of a person that every event has; give the path of one if there is"
    return repeated.path, "every event has it: equal codes of a person get the same mask"


def _in_list(field: SampledField) -> bool:
    return any(not isinstance(step, NameStep) for step in compile_path(field.path).steps)
