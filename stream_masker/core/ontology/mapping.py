"""Conceptual mapping: the concept of a taxonomy that a value of the data stands for (2017: section 4.1)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from stream_masker.core.ontology.data import OntologyData
from stream_masker.core.ontology.names import Synonyms, fold_code
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.errors import OntologyError, ParameterError

UNKNOWN: Final = -2
"""The position of a value that has no concept."""

SHORTEST_PREFIX: Final = 3
"""The least length of the prefixes that the policy ``ancestor`` tries. Categories of ICD have three characters."""

NO_DOT: Final = "."
"""The first character of the keys of codes without a dot. A value with a dot finds them after its dot is removed."""

_ICD9_CATEGORY: Final = re.compile(r"\d+")

CACHED_VALUES: Final = 100_000
"""The most values that a ``ConceptMap`` caches, including those without a concept."""

LONGEST_CACHED: Final = 256
"""The most characters of a cached value, so that the cache cannot take up much memory."""

UnknownPolicy: TypeAlias = Literal["reject", "ancestor", "suppress"]
MatchKind: TypeAlias = Literal["mapping", "exact", "normalised", "label", "ancestor", "unknown"]


_Possible: TypeAlias = tuple[str, list[int]]
"""A text, and the concepts that may have it as a key or a name: those whose text has the same hash."""


@dataclass(frozen=True, slots=True)
class Match:
    """The position of the concept of a value (``UNKNOWN`` if there is none), and how it was found."""

    position: int
    how: MatchKind


_NO_CONCEPT: Final = Match(UNKNOWN, "unknown")


class ConceptMap:
    """Finds the concept of a value. It tries, in this order:

    1. the mapping file;
    2. the exact code;
    3. the normalised code, which ignores case, surrounding space, the dot of ICD codes and missing leading zeros of
       ICD-9 codes (38 is 038). If the value contains a dot, its position counts: 8.45 is 008.45, not 845;
    4. a label or synonym, compared case-folded;
    5. with the policy ``ancestor``, the longest prefix of the normalised code that is a code, of at least three
       characters, but not the root; only in an ontology in which longer codes are finer, as in ICD.

    A normalised code or a label of several concepts finds none of them. The policies ``reject`` and ``suppress`` are
    the same here: the caller distinguishes them. Results are cached. Error messages never contain values.
    """

    def __repr__(self) -> str:
        return f"ConceptMap({self.taxonomy!r}, unknown={self.unknown!r})"

    def __init__(
        self,
        taxonomy: Taxonomy,
        *,
        unknown: UnknownPolicy = "reject",
        mapping: Mapping[str, str] | None = None,
        ontology: Ontology | None = None,
    ) -> None:
        """``mapping``: concept ids by value. ``ontology``: that of the taxonomy, which provides the synonyms.

        Raises ParameterError for another policy, or an ontology that does not hold the taxonomy; OntologyError if
        ``mapping`` contains concepts outside the taxonomy.
        """
        if unknown not in get_args(UnknownPolicy):
            raise ParameterError(f"unknown={unknown!r} is not allowed: use {', '.join(get_args(UnknownPolicy))}")
        if not isinstance(taxonomy, Taxonomy):
            raise ParameterError(
                f"taxonomy is of type {type(taxonomy).__name__}: use a Taxonomy, such as ontology.taxonomy()"
            )
        self.taxonomy = taxonomy
        self.unknown = unknown
        self._mapping = _mapped_positions(mapping or {}, taxonomy)
        self._names = _NameSearch(taxonomy, _data_of(taxonomy, ontology))
        self._cache: dict[str, Match] = {}

    def find(self, value: str) -> Match:
        """Return the concept of a value; cached."""
        if not isinstance(value, str):
            raise ParameterError(f"value is of type {type(value).__name__}: use a text")
        match = self._cache.get(value)
        return self._find(value) if match is None else match

    def ambiguous(self, value: str) -> list[str]:
        """Return the ids of the concepts that share a normalised code or a name with a value that finds none of
        them."""
        if self.find(value).how not in {"unknown", "ancestor"}:
            return []
        (keys,) = self._names.possible_codes([value_keys(value)])
        (name,) = self._names.possible_names([value.strip().casefold()])
        positions = next(filter(None, map(self._names.codes_of, keys)), None) or self._names.named(name)
        return sorted(self.taxonomy.ids[position] for position in positions)

    def prefetch(self, values: Iterable[str]) -> None:
        """Cache the concepts of values. Looking up many at once costs less than one by one."""
        new = [value for value in values if len(value) <= LONGEST_CACHED and self._is_new(value)]
        others = []
        for value, position in zip(new, self.taxonomy.find(new).tolist(), strict=True):
            if position >= 0:
                self._remember(value, Match(position, "exact"))
            else:
                others.append(value)
        for value, match in zip(others, self._search(others), strict=True):
            self._remember(value, match)

    def _is_new(self, value: str) -> bool:
        return value not in self._cache and value not in self._mapping

    def resolve(self, value: str) -> tuple[int, bool]:
        """Return the position of the concept, or ``UNKNOWN``; and whether the whole value was found, not only a
        prefix."""
        match = self.find(value)
        return match.position, match.how not in ("ancestor", "unknown")

    def _find(self, value: str) -> Match:
        match = self._listed(value) or self._search([value])[0]
        self._remember(value, match)
        return match

    def _remember(self, value: str, match: Match) -> None:
        if len(value) > LONGEST_CACHED:
            return
        if len(self._cache) >= CACHED_VALUES:
            self._cache.clear()
        self._cache[value] = match

    def _listed(self, value: str) -> Match | None:
        """Return the concept of a value that is mapped, or an exact code."""
        if value in self._mapping:
            return Match(self._mapping[value], "mapping")
        if value in self.taxonomy and self.taxonomy.is_value(position := self.taxonomy.position(value)):
            return Match(position, "exact")
        return None

    def _search(self, values: Sequence[str]) -> list[Match]:
        """Return the concepts of values that are neither mapped nor exact codes. All of them are looked up together."""
        keys = [value_keys(value) for value in values]
        matches = list(map(self._code, self._names.possible_codes(keys)))
        unknown = _without_concept(matches)
        names = self._names.possible_names([values[k].strip().casefold() for k in unknown])
        for k, name in zip(unknown, names, strict=True):
            matches[k] = self._name(name)
        if self.unknown == "ancestor" and self._names.are_longer_codes_finer:
            unknown = _without_concept(matches)
            prefixes = self._names.possible_codes([self._prefixes(keys[k]) for k in unknown])
            for k, of_value in zip(unknown, prefixes, strict=True):
                matches[k] = self._ancestor(of_value)
        return matches

    def _code(self, keys: Sequence[_Possible]) -> Match:
        position = next(self._names.find_codes(keys), UNKNOWN)
        return _NO_CONCEPT if position == UNKNOWN else Match(position, "normalised")

    def _name(self, name: _Possible) -> Match:
        position = self._names.find_name(name)
        return _NO_CONCEPT if position == UNKNOWN else Match(position, "label")

    def _ancestor(self, prefixes: Sequence[_Possible]) -> Match:
        position = next((found for found in self._names.find_codes(prefixes) if found > 0), UNKNOWN)
        return _NO_CONCEPT if position == UNKNOWN else Match(position, "ancestor")

    def _prefixes(self, keys: Sequence[str]) -> list[str]:
        """Return the prefixes of a value's keys that may be codes, in the order in which they are tried."""
        longest = self._names.longest_key
        return [
            key[:end]
            for key in keys
            for end in range(min(len(key) - 1, longest), SHORTEST_PREFIX - 1 + key.startswith(NO_DOT), -1)
        ]


def _without_concept(matches: Sequence[Match]) -> list[int]:
    return [k for k, match in enumerate(matches) if match is _NO_CONCEPT]


def _data_of(taxonomy: Taxonomy, ontology: Ontology | None) -> OntologyData:
    if ontology is None:
        return OntologyData(taxonomy, Synonyms.none(taxonomy))
    if taxonomy.root not in ontology:
        raise ParameterError("ontology= must be the ontology that the taxonomy is of")
    return ontology.data


class _NameSearch:
    """Positions in a taxonomy by normalised codes and by names, from the indexes of the whole ontology."""

    def __init__(self, taxonomy: Taxonomy, data: OntologyData) -> None:
        self._taxonomy = taxonomy
        self._data = data

    @cached_property
    def longest_key(self) -> int:
        """The number of characters that no key of a concept exceeds.

        Capitals can have three characters for one of two bytes, and a key may start with ``NO_DOT``.
        """
        ids = self._data.taxonomy.ids
        return int((ids.ends - ids.starts).max(initial=0)) * 3 // 2 + len(NO_DOT)

    @cached_property
    def are_longer_codes_finer(self) -> bool:
        """Whether, among the codes that start with another one, most start with that of their parent. The root does not
        count."""
        taxonomy = self._data.taxonomy
        positions = {fold_code(concept): k for k, concept in enumerate(taxonomy.ids) if k}
        longest = {k: next(_shorter(code, positions), 0) for code, k in positions.items()}
        offsets, parents = taxonomy.parent_offsets.tolist(), taxonomy.parents.tolist()
        are_parents = [start in parents[offsets[k] : offsets[k + 1]] for k, start in longest.items() if start]
        return 2 * sum(are_parents) > len(are_parents)

    def possible_codes(self, keys: Sequence[Sequence[str]]) -> list[list[_Possible]]:
        """Return, for each of several values, those of its keys (``code_keys``) that concepts may have."""
        candidates = iter(self._data.indexes.codes.candidates([*chain.from_iterable(keys)], fold_code))
        return [[(key, concepts) for key in of_value if (concepts := next(candidates))] for of_value in keys]

    def possible_names(self, names: Sequence[str]) -> list[_Possible]:
        """Return case-folded labels or synonyms with the concepts that may have them."""
        return list(zip(names, self._data.indexes.names.candidates(names, str), strict=True))

    def find_codes(self, keys: Iterable[_Possible]) -> Iterator[int]:
        """Yield the position of the concept with a key, or UNKNOWN if there are several, for each key that concepts
        have."""
        return (_only(concepts) for key in keys if (concepts := self.codes_of(key)))

    def codes_of(self, key: _Possible) -> Sequence[int]:
        """Return the positions of the concepts with a key."""
        text, candidates = key
        return self._inside({c for c in candidates if text in code_keys(self._data.taxonomy.ids[c])})

    def find_name(self, name: _Possible) -> int:
        """Return the position of the only concept with this label or synonym, otherwise UNKNOWN."""
        return _only(self.named(name)) if name[1] else UNKNOWN

    def named(self, name: _Possible) -> Sequence[int]:
        """Return the positions of the concepts with a label or synonym."""
        text, candidates = name
        return self._inside({c for c in candidates if self._has_name(c, text)})

    def _has_name(self, concept: int, name: str) -> bool:
        names = (self._data.taxonomy.labels[concept], *self._data.synonyms.at(concept))
        return name in map(str.casefold, names)

    def _inside(self, concepts: set[int]) -> Sequence[int]:
        """Return the positions, in the taxonomy, of those values of the whole ontology that it holds."""
        if not concepts:
            return ()
        if self._taxonomy is self._data.taxonomy:
            return [concept for concept in concepts if self._taxonomy.is_value(concept)]
        positions = self._taxonomy.find(self._data.taxonomy.decode(concepts)).tolist()
        return [position for position in positions if position >= 0]


def _shorter(code: str, positions: Mapping[str, int]) -> Iterator[int]:
    """Yield the positions of the codes that a code starts with, the longest first."""
    return (positions[code[:end]] for end in range(len(code) - 1, 0, -1) if code[:end] in positions)


def _only(positions: Sequence[int]) -> int:
    return positions[0] if len(positions) == 1 else UNKNOWN


def code_keys(concept: str) -> set[str]:
    """Return the keys by which a code is found: in capitals, and if it has a dot, also without the dot.

    A code without a dot has a second key that starts with ``NO_DOT``.
    """
    code = concept.upper()
    return {code, code.replace(".", "")} if "." in code else {code, NO_DOT + code}


def value_keys(value: str) -> tuple[str, ...]:
    """Return the keys by which a value looks up codes, in order: as it is, then with the leading zeros of ICD-9.

    A value with a dot then looks up codes that have no dot, after its own dot is removed.
    """
    text = value.strip().upper()
    padded = pad_icd9(text)
    if "." not in text:
        return (text,) if padded == text else (text, padded)
    keys = text, padded, NO_DOT + padded.replace(".", ""), NO_DOT + text.replace(".", "")
    return tuple(dict.fromkeys(keys))


def pad_icd9(code: str) -> str:
    """Return a code with the leading zeros of ICD-9 added to its category, if that is a number (38 → 038)."""
    category, dot, rest = code.partition(".")
    return category.zfill(3) + dot + rest if _ICD9_CATEGORY.fullmatch(category) else code


def read_mapping(path: Path) -> dict[str, str]:
    """Read a mapping file: CSV or TSV, with the first line ``value,concept``.

    Raises OntologyError, which names the line but no value.
    """
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
        raise OntologyError(f"line {number} of the mapping file {path} is not a pair of value and concept")
    return row[0], row[1].strip()


def _mapped_positions(mapping: Mapping[str, str], taxonomy: Taxonomy) -> dict[str, int]:
    outside = sorted({c for c in mapping.values() if c not in taxonomy or not taxonomy.is_value(taxonomy.position(c))})
    if outside:
        raise OntologyError("the mapping contains concepts outside the taxonomy", culprits=outside)
    return {value: taxonomy.position(concept) for value, concept in mapping.items()}
