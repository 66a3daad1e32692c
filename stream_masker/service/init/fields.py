"""What a field of sampled events is: the codes of an ontology, their labels, the id of a person, or something else."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from stream_masker.core.ontology import ConceptMap
from stream_masker.pipeline.paths import NameStep, compile_path
from stream_masker.service.init.sample import SampledField

LEAST_SHARE: Final = 0.8
"""The least share of a field's values that are concepts, for it to be an attribute."""

LEAST_ICD9: Final = 0.1
"""The least share of a field's values that look like codes of ICD-9, for the others to be, too."""

TESTED_VALUES: Final = 300
"""The number of a field's most frequent values that are looked up."""

MOST_UNIQUE: Final = 50
"""A field of more values, no two of which are equal, has no codes."""

MISSING_MARKS: Final = frozenset({"NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", ".", "-", "?", "-9", "-99"})
"""The texts that may stand for a missing code."""

LEAST_PERSONS, MOST_EVENTS = 20, 50
"""Without a name of a person's id: the least number of its values, and the most events that share one on average."""

_PERSON: Final = re.compile(
    r"(pat|patid|patnr|pid|mrn|kvnr|nhs)$|.*(patient|pa[cz]i?ent|person|subject|member|bene|enrol|participant|uniquep)"
)
_ID: Final = re.compile(r".*(ids?|nr|nbr|no|num|number|nummer|numero|key|identifier|reference|mrn|kvnr)$")

_ICD9: Final = re.compile(r"\d{3}\.\d{1,2}|V\d\d.*|E\d{3}.*")
"""The codes of ICD-9 that are no mere numbers."""

ICD9_TEXT: Final = (
    "codes of ICD-9-CM, which is not shipped: make a table with the header concept,parent,label of the codes of CMS "
    "(CMS32_DESC_LONG_DX.txt), and name it with --ontology icd9=FILE"
)


@dataclass(frozen=True, slots=True)
class Coding:
    """How many of a field's values are codes of an ontology, in [0, 1].

    ``share``: of all values; ``icd9``: of values that are none, and look like codes of ICD-9. ``marks``: the texts that
    stand for missing codes, which are not among the values.
    """

    field: SampledField
    ontology: str
    share: float
    icd9: float
    marks: frozenset[str]

    @property
    def why(self) -> str:
        """The share as text."""
        return f"{self.share:.0%} of the values are concepts of {self.ontology}"

    @property
    def problem(self) -> str | None:
        """Why the field is no attribute; None if it is one."""
        values, is_coded, is_icd9 = self.field.values, self.share >= LEAST_SHARE, self.icd9 >= LEAST_ICD9
        is_number = 2 * self.field.others > values.total()
        reasons = (
            (all(map(_is_short, values)), "letters or short numbers, which are no codes"),
            (is_number and is_coded, "numbers, which are codes: quote them, or read the column as text"),
            (is_number and is_icd9, f"numbers, which look like {ICD9_TEXT}, and quote them"),
            (is_number, "numbers"),
            (len(values) == 1, "a single value, which cannot be masked"),
            (MOST_UNIQUE < len(values) == values.total(), f"{len(values):,} values, no two of which are equal"),
            (not is_coded and is_icd9, f"it looks like {ICD9_TEXT}"),
            (not is_coded, self.why),
        )
        return next((reason for holds, reason in reasons if holds), None)


def _is_short(text: str) -> bool:
    return len(text) < (3 if text.isdigit() else 2)


def best_coding(field: SampledField, concepts: Mapping[str, ConceptMap]) -> Coding:
    """Return the coding of a field in the ontology that has most of its values.

    ``MISSING_MARKS`` stand for missing codes where fewer than half of the values are one of them.
    """
    marks = {value for value in field.values if value.strip() in MISSING_MARKS}
    if 2 * sum(field.values[mark] for mark in marks) >= field.values.total():
        marks = set()
    values = Counter({value: n for value, n in field.values.items() if value.strip() and value not in marks})
    tested = dict(values.most_common(TESTED_VALUES))
    total, codings = max(1, sum(tested.values())), []
    for name, known in concepts.items():
        how = {value: known.find(value).how for value in tested}
        coded = sum(count for value, count in tested.items() if how[value] in ("exact", "normalised"))
        others = (value for value in tested if how[value] in ("unknown", "ancestor") and _ICD9.fullmatch(value.strip()))
        icd9 = sum(tested[value] for value in others)
        codings.append(Coding(field, name, coded / total, icd9 / total, frozenset(marks)))
    return max(codings, key=lambda coding: coding.share)


def person_id(fields: Iterable[SampledField], coded: Set[int]) -> tuple[SampledField, str] | None:
    """Return the field that has the id of a person in every event with a code, and why; None if there is none.

    A name of a person's id counts most. Without one, it is the id that comes again in other events, and of which there
    are most.
    """
    found, events = [], len(coded)
    for field in fields:
        values, paths = field.values, map(compile_path, field.place.paths)
        is_scalar = all(isinstance(step, NameStep) for path in paths for step in path.steps)
        if not (is_scalar and field.events >= coded) or any(re.search(r"\s|\d-\d\d-\d", value) for value in values):
            continue
        *_, last = names = [_plain(name) for name in field.place.names]
        named = any((_PERSON.fullmatch(last), _is_id(field) and _PERSON.match("".join(names))))
        repeats = LEAST_PERSONS <= len(values) < events <= MOST_EVENTS * len(values)
        if named or (_is_id(field) and repeats):
            found.append((named, len(values) < events, len(values), field))
    if not found:
        return None
    named, _, number, field = max(found, key=lambda one: one[:3])
    why = "the name is that of a person's id" if named else "CHECK: its values repeat as those of a person's id"
    return field, f"{why}; {number:,} in {events:,} events: equal codes of a person get the same mask"


def _is_id(field: SampledField) -> bool:
    """Return whether the name of a field ends like that of an id or a number."""
    return _ID.match(_plain(field.place.names[-1])) is not None


def _plain(name: str) -> str:
    """Return the letters of a name in lower case, without accents."""
    return re.sub(r"[^a-z]", "", unicodedata.normalize("NFKD", name).lower())
