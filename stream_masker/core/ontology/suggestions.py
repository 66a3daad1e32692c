"""Suggestions for values without a concept: concepts with a similar code, label or synonym."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cached_property

from stream_masker.core.ontology.names import fold_code
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.taxonomy import Taxonomy

SUGGESTIONS_MAX = 3
START = 3
"""A name is compared with a value if a word of one starts like a word of the other, by this number of letters."""

CODE_START = 2


class Suggestions:
    """Finds concepts of a taxonomy that a value may be a misspelling of."""

    def __init__(self, taxonomy: Taxonomy, ontology: Ontology) -> None:
        self._taxonomy = taxonomy
        self._ontology = ontology

    def of(self, value: str) -> list[str]:
        """Return the ids of at most ``SUGGESTIONS_MAX`` concepts, the most similar ones first."""
        code = fold_code(value.strip())
        codes = {fold_code(concept): concept for concept in self._codes.get(code[:CODE_START], ())}
        similar = [codes[one] for one in get_close_matches(code, codes, n=SUGGESTIONS_MAX, cutoff=0.6)]
        name = value.strip().casefold()
        names = {text: concept for start in _starts(name) for text, concept in self._names.get(start, ())}
        similar += [names[one] for one in get_close_matches(name, names, n=SUGGESTIONS_MAX, cutoff=0.75)]
        return list(dict.fromkeys(similar))[:SUGGESTIONS_MAX]

    @cached_property
    def _codes(self) -> dict[str, list[str]]:
        codes = defaultdict(list)
        for concept in self._taxonomy.ids:
            codes[fold_code(concept)[:CODE_START]].append(concept)
        return codes

    @cached_property
    def _names(self) -> dict[str, list[tuple[str, str]]]:
        names = defaultdict(list)
        for concept, text in self._texts():
            name = text.casefold()
            for start in _starts(name):
                names[start].append((name, concept))
        return names

    def _texts(self) -> Iterator[tuple[str, str]]:
        for concept, label in zip(self._taxonomy.ids, self._taxonomy.labels, strict=True):
            if label:
                yield concept, label
            yield from ((concept, text) for text in self._ontology.synonyms.get(concept, ()))


def _starts(name: str) -> set[str]:
    return {word[:START] for word in name.split() if len(word) >= START}
