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
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import OntologyError

UNKNOWN: Final = -2
"""The position of a value that has no concept."""

SHORTEST_PREFIX: Final = 3
"""The least length of the prefixes that the policy ``ancestor`` tries. Categories of ICD have three characters."""

NO_DOT: Final = "."
"""The first character of the keys of codes without a dot. A value with a dot finds them after its dot is removed."""

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
    3. the normalised code, which ignores case, surrounding space, the dot of ICD codes and missing leading zeros of
       ICD-9 codes (38 is 038). If the value contains a dot, its position counts: 8.45 is 008.45, not 845;
    4. a label or synonym, compared case-folded;
    5. with the policy ``ancestor``, the longest prefix of the normalised code that is a code, of at least three
       characters, but not the root; only in a taxonomy in which longer codes are finer, as in ICD, and only if what
       follows the prefix looks like a finer code: up to four digits, or letters and digits before one (A10BA02), or the
       seventh character of ICD-10-CM (S72.001A). E11.90A, where A stands for an excluded diagnosis, has no concept.

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
        position = self.taxonomy.find_one(value)
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
        """Return the longest prefix that is a code. A key may start with ``NO_DOT``."""
        for key in keys if self._are_longer_codes_finer else ():
            shortest = max(SHORTEST_PREFIX + key.startswith(NO_DOT), len(key) - LONGEST_REST)
            for end in range(len(key) - 1, shortest - 1, -1):
                positions = self._coded(key[:end]) if _is_finer(key, key[end:]) else []
                if len(positions) == 1 and positions[0] > 0:
                    return Match(positions[0], "ancestor")
        return _NO_CONCEPT

    def _coded(self, key: str) -> list[int]:
        """Return the positions of the concepts with a key (``_code_keys``)."""
        tau = self.taxonomy
        return [c for c in tau.spelled(key) if key in _code_keys(tau.ids[c])]

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


def _is_finer(code: str, rest: str) -> bool:
    """Return whether the rest of a code, after a prefix, looks like the end of a finer code."""
    is_seventh = len(code.replace(NO_DOT, "")) == 7 and _SEVENTH.fullmatch(rest)
    return bool(_FINER.fullmatch(rest) or is_seventh)


def _code_keys(concept: str) -> set[str]:
    """Return the keys by which a code is found: case-folded, and if it has a dot, also without the dot.

    A code without a dot has a second key that starts with ``NO_DOT``.
    """
    code = concept.casefold()
    return {code, code.replace(".", "")} if "." in code else {code, NO_DOT + code}


def _value_keys(value: str) -> tuple[str, ...]:
    """Return the keys by which a value looks up codes, in order: as it is, then with the leading zeros of ICD-9.

    A value with a dot then looks up codes that have no dot, after its own dot is removed.
    """
    text = value.strip().casefold()
    category, dot, rest = text.partition(".")
    padded = category.zfill(3) + dot + rest if category.isdecimal() else text
    if "." not in text:
        return (text,) if padded == text else (text, padded)
    keys = text, padded, NO_DOT + padded.replace(".", ""), NO_DOT + text.replace(".", "")
    return tuple(dict.fromkeys(keys))


def read_mapping(path: Path) -> dict[str, str]:
    """Read a mapping file: CSV or TSV, with the columns ``value`` and ``concept``.

    Raises OntologyError, which names the line but no value.
    """
    with reading(f"the mapping file {path}"), path.open("rb") as file:
        return {value: concept.strip() for value, concept in rows_of(file, "value", "concept")}


def _mapped_positions(mapping: Mapping[str, str], taxonomy: Taxonomy) -> dict[str, int]:
    positions = dict(zip(mapping, taxonomy.find(list(mapping.values())).tolist(), strict=True))
    outside = sorted({mapping[value] for value, position in positions.items() if position < 0})
    if outside:
        raise OntologyError("the mapping contains concepts outside the taxonomy", culprits=outside)
    return positions
