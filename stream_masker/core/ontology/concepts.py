"""Conceptual mapping: the concept of a taxonomy that a value of the data stands for (2017: section 4.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from stream_masker.core.ontology.draft import reading
from stream_masker.core.ontology.formats.tables import rows_of
from stream_masker.core.ontology.store import fold
from stream_masker.core.ontology.taxonomy import UNKNOWN, Taxonomy
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import OntologyError

SHORTEST_PREFIX: Final = 3
"""The least characters, without dots, of the prefixes that the policy ``ancestor`` tries, as in categories of ICD."""

LONGEST_REST: Final = 5
"""The most characters, with a dot, that follow a code in a finer one that ``_is_finer`` accepts."""

CACHED_VALUES: Final = 100_000
"""The most values that a ``ConceptMap`` caches, including those without a concept."""

LONGEST_CACHED: Final = 256
"""The most characters of a cached value, so that the cache cannot take up much memory."""

UnknownPolicy: TypeAlias = Literal["reject", "ancestor", "suppress"]
MatchKind: TypeAlias = Literal["mapping", "exact", "normalised", "label", "ancestor", "ambiguous", "unknown"]


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
    3. the normalised code, which ignores case, surrounding space, missing leading zeros of ICD-9 codes (38 is 038) and
       the dot of ICD codes. If value and code both contain a dot, its position counts: 8.45 is 008.45, not 84.5;
    4. a label or synonym, compared case-folded;
    5. with the policy ``ancestor``, the longest prefix of the normalised code that is a code, of at least three
       characters without dots, but not the root; only in a taxonomy in which longer codes are finer, as in ICD, and
       only if what follows the prefix looks like a finer code: up to four digits, or letters and digits before one
       (A10BA02), or the seventh character of ICD-10-CM (S72.001A). E11.90A, where A stands for an excluded diagnosis,
       has no concept.

    A normalised code or a label of several concepts finds none of them: it is ``ambiguous``. The policies ``reject``
    and ``suppress`` are the same here: the caller distinguishes them. Results are cached. Error messages never contain
    values.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        *,
        unknown: UnknownPolicy = "reject",
        mapping: Mapping[str, str] | None = None,
    ) -> None:
        """``mapping``: concept ids by value.

        Raises ParameterError for another policy, and OntologyError if ``mapping`` contains concepts outside the
        taxonomy.
        """
        require_one_of("unknown", unknown, get_args(UnknownPolicy))
        require_type("taxonomy", taxonomy, Taxonomy)
        self.taxonomy = taxonomy
        self.unknown = unknown
        self._mapping = _mapped_positions(mapping or {}, taxonomy)
        self._cached = lru_cache(CACHED_VALUES)(self._find)

    def find(self, value: str) -> Match:
        """Return the concept of a value; cached."""
        return self._cached(value) if len(value) <= LONGEST_CACHED else self._find(value)

    def _find(self, value: str) -> Match:
        if value in self._mapping:
            return Match(self._mapping[value], "mapping")
        position = self.taxonomy.find(value)
        if position >= 0:
            return Match(position, "exact")
        keys = _value_keys(value)
        if len(coded := next(filter(None, map(self._coded, keys)), [])) == 1:
            return Match(coded[0], "normalised")
        if len(named := self.taxonomy.named(value)) == 1:
            return Match(named[0], "label")
        found = self._ancestor(keys) if self.unknown == "ancestor" else _NO_CONCEPT
        return Match(UNKNOWN, "ambiguous") if found is _NO_CONCEPT and (coded or named) else found

    def _ancestor(self, keys: Sequence[str]) -> Match:
        """Return the longest prefix that is a code."""
        for key in keys if self._are_longer_codes_finer else ():
            for end in range(len(key) - 1, max(0, len(key) - 1 - LONGEST_REST), -1):
                positions = self._coded(key[:end]) if _is_finer(key[:end], key[end:]) else []
                if len(positions) == 1 and positions[0] > 0:
                    return Match(positions[0], "ancestor")
        return _NO_CONCEPT

    def _coded(self, key: str) -> list[int]:
        """Return the positions of the codes that differ from a key by case, and by dots that one of both lacks."""
        codes = ((c, self.taxonomy.ids[c].casefold()) for c in self.taxonomy.spelled(key))
        return [c for c, code in codes if code == key or (fold(code) == fold(key) and ("." in code) != ("." in key))]

    @cached_property
    def _are_longer_codes_finer(self) -> bool:
        """Whether, among the codes of the taxonomy that start with another one, most start with that of a parent."""
        tau = self.taxonomy
        positions = {fold(concept): k for k, concept in enumerate(tau.ids)}
        are_parents = []
        for code, k in positions.items():
            starts = (positions[code[:end]] for end in range(len(code) - 1, 0, -1) if code[:end] in positions)
            if (longest := next(starts, None)) is not None:
                are_parents.append(longest in tau.parents[tau.parent_offsets[k] : tau.parent_offsets[k + 1]])
        return 2 * sum(are_parents) > len(are_parents)


_FINER: Final = re.compile(r"\.?[0-9a-z]{0,3}[0-9]")
_SEVENTH: Final = re.compile(r"\.?[0-9x]{0,3}[a-z]")


def _is_finer(prefix: str, rest: str) -> bool:
    """Return whether the rest of a code, after a prefix that is long enough, looks like the end of a finer code."""
    is_seventh = len(fold(prefix + rest)) == 7 and _SEVENTH.fullmatch(rest)
    return len(fold(prefix)) >= SHORTEST_PREFIX and bool(_FINER.fullmatch(rest) or is_seventh)


def _value_keys(value: str) -> tuple[str, ...]:
    """Return the keys by which a value looks up codes, in order: with the leading zeros of ICD-9, then as it is."""
    text = value.strip().casefold()
    category, dot, rest = text.partition(".")
    padded = category.zfill(3) + dot + rest if category.isdecimal() else text
    return (text,) if padded == text else (padded, text)


def read_mapping(path: Path) -> dict[str, str]:
    """Read a mapping file: CSV or TSV, with the columns ``value`` and ``concept``.

    Raises OntologyError, which names the line but no value.
    """
    with reading(f"the mapping file {path}"), path.open("rb") as file:
        return {value: concept.strip() for value, concept in rows_of(file, "value", "concept")}


def _mapped_positions(mapping: Mapping[str, str], taxonomy: Taxonomy) -> dict[str, int]:
    positions = {value: taxonomy.find(concept) for value, concept in mapping.items()}
    outside = sorted({mapping[value] for value, position in positions.items() if position < 0})
    if outside:
        raise OntologyError("the mapping contains concepts outside the taxonomy", culprits=outside)
    return positions
