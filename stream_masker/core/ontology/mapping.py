"""Conceptual mapping: which concept of the taxonomy a value of the data stands for (2017: section 4.1)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from stream_masker.core.ontology.data import OntologyData
from stream_masker.core.ontology.names import Synonyms, fold_code
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.errors import OntologyError, ParameterError

UNKNOWN: Final = -2
"""The position of a value that is no concept."""

SHORTEST_PREFIX: Final = 3
"""The policy ``ancestor`` never goes below three characters: ICD's categories have three, its chapters fewer."""

NO_DOT: Final = "."
"""What the keys of codes without a dot start with, where a value's dot is left out to find them."""

CACHED_VALUES: Final = 100_000
"""How many values an attribute keeps with what they stand for; those that are no concepts too."""

UnknownPolicy: TypeAlias = Literal["reject", "ancestor", "suppress"]
MatchKind: TypeAlias = Literal["mapping", "exact", "normalised", "label", "ancestor", "unknown"]


@dataclass(frozen=True, slots=True)
class Match:
    """The position of a value's concept (``UNKNOWN`` for none) and how it was found."""

    position: int
    how: MatchKind


class ConceptMap:
    """Finds the concept of a value, in this order: mapping file, exact code, normalised code, label or synonym.

    Normalised codes ignore case, surrounding space, ICD's dot and missing leading zeros of ICD-9 (38 is 038, V1 is
    V01). A dot that is there counts: 8.45 is 008.45, not 845. Labels and synonyms are compared case-folded. A
    normalised code or a label that several concepts share finds none of them. What finds none follows ``unknown``:
    ``ancestor`` takes the concept of the longest known prefix of the normalised code (three characters at least),
    ``reject`` and ``suppress`` find nothing; telling these two apart is the caller's business. Looking up is cached;
    values never leave this object.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        *,
        unknown: UnknownPolicy = "reject",
        mapping: Mapping[str, str] | None = None,
        ontology: Ontology | None = None,
    ) -> None:
        """``mapping``: values to concept ids; ``ontology``: that of the taxonomy, where synonyms are taken from.

        Raises ParameterError for another policy or an ontology that does not hold the taxonomy, OntologyError for a
        mapping to concepts outside the taxonomy.
        """
        if unknown not in get_args(UnknownPolicy):
            raise ParameterError(f"unknown={unknown!r} is not allowed: use {', '.join(get_args(UnknownPolicy))}")
        self.taxonomy = taxonomy
        self.unknown = unknown
        self._mapping = _positions_of(mapping or {}, taxonomy)
        self._names = _Names(taxonomy, _data_of(taxonomy, ontology))
        self._found: dict[str, Match] = {}

    def find(self, value: str) -> Match:
        """The value's concept by the rules above, the policy ``ancestor`` included; cached."""
        found = self._found.get(value)
        return self._remember(value) if found is None else found

    def learn(self, values: Iterable[str]) -> None:
        """Looks up codes at once, which costs less than one by one, so that ``find`` has them in its cache."""
        new = [value for value in values if value not in self._found and value not in self._mapping]
        for value, position in zip(new, self.taxonomy.find(new).tolist(), strict=True):
            if position >= 0:
                self._keep(value, Match(position, "exact"))

    def resolve(self, value: str) -> tuple[int, bool]:
        """(position or ``UNKNOWN``, whether the value itself is known and not only a prefix of it); cached."""
        match = self.find(value)
        return match.position, match.how not in ("ancestor", "unknown")

    def _remember(self, value: str) -> Match:
        match = self._known(value)
        if match.position == UNKNOWN and self.unknown == "ancestor":
            match = self._ancestor(value)
        self._keep(value, match)
        return match

    def _keep(self, value: str, match: Match) -> None:
        if len(self._found) >= CACHED_VALUES:
            self._found.clear()
        self._found[value] = match

    def _known(self, value: str) -> Match:
        if value in self._mapping:
            return Match(self._mapping[value], "mapping")
        if value in self.taxonomy:
            return Match(self.taxonomy.position(value), "exact")
        code = next((c for key in value_keys(value) if (c := self._names.of_code(key)) is not None), UNKNOWN)
        if code != UNKNOWN:
            return Match(code, "normalised")
        name = self._names.of_text(value.strip().casefold())
        return Match(name, "unknown" if name == UNKNOWN else "label")

    def _ancestor(self, value: str) -> Match:
        for key in value_keys(value):
            for end in range(len(key) - 1, SHORTEST_PREFIX - 1 + key.startswith(NO_DOT), -1):
                position = self._names.of_code(key[:end])
                if position is not None and position != UNKNOWN:
                    return Match(position, "ancestor")
        return Match(UNKNOWN, "unknown")


def _data_of(taxonomy: Taxonomy, ontology: Ontology | None) -> OntologyData:
    if ontology is None:
        return OntologyData(taxonomy, Synonyms.none(taxonomy))
    if taxonomy.root not in ontology:
        raise ParameterError("ontology= must be the ontology that the taxonomy is of")
    return ontology.data


class _Names:
    """Positions in a taxonomy by the codes and names that the indexes of its ontology hold."""

    def __init__(self, taxonomy: Taxonomy, data: OntologyData) -> None:
        self._taxonomy = taxonomy
        self._data = data

    def of_code(self, key: str) -> int | None:
        """The position of the one concept with this key (``code_keys``), UNKNOWN for several, None for none."""
        owners = self._data.indexes.codes.candidates(fold_code(key))
        return self._one({c for c in owners if key in code_keys(self._data.taxonomy.ids[c])})

    def of_text(self, name: str) -> int:
        """The position of the one concept with this case-folded label or synonym, else UNKNOWN."""
        owners = self._data.indexes.names.candidates(name) if name else set()
        found = self._one({c for c in owners if self._is_called(c, name)})
        return UNKNOWN if found is None else found

    def _is_called(self, concept: int, name: str) -> bool:
        names = (self._data.taxonomy.labels[concept], *self._data.synonyms.at(concept))
        return name in map(str.casefold, names)

    def _one(self, concepts: set[int]) -> int | None:
        found = self._inside(concepts) if concepts else ()
        if not found:
            return None
        return found[0] if len(found) == 1 else UNKNOWN

    def _inside(self, concepts: set[int]) -> Sequence[int]:
        if self._taxonomy is self._data.taxonomy:
            return list(concepts)
        positions = self._taxonomy.find(self._data.taxonomy.decode(concepts)).tolist()
        return [position for position in positions if position >= 0]


def code_keys(concept: str) -> set[str]:
    """What a concept's code may be looked up by: in capitals with its dot and without; one without a dot is marked."""
    code = concept.upper()
    return {code, code.replace(".", "")} if "." in code else {code, NO_DOT + code}


def value_keys(value: str) -> tuple[str, ...]:
    """What a value looks codes up by, in order: as it is, then with ICD-9's leading zeros (038, V01, E001).

    A value with a dot is compared with codes that have one; only codes that have none are compared without it.
    """
    text = value.strip().upper()
    if "." not in text:
        return text, pad(text)
    return text, pad(text), NO_DOT + pad(text).replace(".", ""), NO_DOT + text.replace(".", "")


def pad(code: str) -> str:
    """A code in capitals with its category padded to the digits that ICD-9 writes."""
    whole, dot, rest = code.partition(".")
    match = re.fullmatch(r"([VE]?)(\d+)", whole)
    if match is None:
        return code
    letter, digits = match.groups()
    return letter + digits.zfill(2 if letter == "V" else 3) + dot + rest


def read_mapping(path: Path) -> dict[str, str]:
    """A mapping file: CSV or TSV, first line ``value,concept``. Raises OntologyError that names the line."""
    delimiter = "\t" if path.suffix == ".tsv" else ","
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = list(csv.reader(lines, delimiter=delimiter))
    except (OSError, UnicodeDecodeError) as error:
        raise OntologyError(f"the mapping file {path} cannot be read ({type(error).__name__})") from None
    if not rows or [cell.strip().lower() for cell in rows[0]] != ["value", "concept"]:
        raise OntologyError(f"the first line of the mapping file {path} must be value,concept")
    return dict(_pair(row, number, path) for number, row in enumerate(rows[1:], start=2) if row)


def _pair(row: list[str], number: int, path: Path) -> tuple[str, str]:
    if len(row) != 2 or not all(row):
        raise OntologyError(f"line {number} of the mapping file {path} is no pair of value and concept")
    return row[0], row[1].strip()


def _positions_of(mapping: Mapping[str, str], taxonomy: Taxonomy) -> dict[str, int]:
    outside = sorted({concept for concept in mapping.values() if concept not in taxonomy})
    if outside:
        raise OntologyError("the mapping leads to concepts outside the taxonomy", culprits=outside)
    return {value: taxonomy.position(concept) for value, concept in mapping.items()}
