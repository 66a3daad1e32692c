"""Context: fields that stay in the record, and on which its masks and the promise depend.

Each context attribute has a fixed number of kinds: its listed texts, or the bands of its numbers, and one kind for
everything else. A context is a combination of one kind of each attribute. Contexts are numbered row by row, the first
attribute first, so that contexts with the same first kinds are consecutive.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from stream_masker.core.arrays import Int64Array
from stream_masker.core.validation import require_type
from stream_masker.errors import ParameterError

MAX_CONTEXTS = 400
"""The greatest number of contexts, with those of other values."""

ContextChoice: TypeAlias = Mapping[str, Sequence[str] | Sequence[float]]
"""For each context attribute its texts, or the ascending bounds of its bands."""


@dataclass(frozen=True, slots=True)
class ContextAttribute:
    """One attribute: its ``texts``, or the ``bounds`` of its bands; the other one is empty.

    The band of a number is the number of bounds that do not exceed it, so there is one band more than bounds.
    """

    name: str
    texts: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @classmethod
    def of(cls, name: str, given: object) -> ContextAttribute:
        """Create the attribute of a list of texts or of bounds. Raises ParameterError."""
        entries = tuple(given) if isinstance(given, list | tuple) else ()
        if entries and all(isinstance(entry, str) for entry in entries) and len(set(entries)) == len(entries):
            return cls(name, texts=entries)
        are_numbers = all(isinstance(entry, int | float) and math.isfinite(_number(entry)) for entry in entries)
        if not entries or not are_numbers or any(low >= high for low, high in pairwise(entries)):
            raise ParameterError(
                f"context {name!r}: give different texts that can occur, or the ascending bounds of bands of numbers"
            )
        return cls(name, bounds=tuple(map(float, entries)))

    @property
    def size(self) -> int:
        """The number of kinds; the last one is that of other values."""
        return (len(self.texts) or len(self.bounds) + 1) + 1

    def kind_of(self, value: object) -> int:
        """Return the kind of a value. Texts that are numbers have a band, too."""
        if self.texts:
            return self.texts.index(value) if isinstance(value, str) and value in self.texts else self.size - 1
        number = _number(value)
        return self.size - 1 if math.isnan(number) else sum(bound <= number for bound in self.bounds)


@dataclass(frozen=True)
class Context:
    """The context attributes, in the order of their importance: rare contexts keep their first kinds longest."""

    attributes: tuple[ContextAttribute, ...]

    @classmethod
    def of(cls, given: ContextChoice) -> Context:
        """Create the context of a mapping from names to texts or bounds. Raises ParameterError."""
        require_type("context", given, Mapping, "mapping, such as {'sex': ['F', 'M'], 'age': [18, 45, 65]}")
        context = cls(tuple(ContextAttribute.of(name, entry) for name, entry in given.items()))
        if context.size > MAX_CONTEXTS:
            raise ParameterError(f"there are {context.size} contexts: use wider bands, for at most {MAX_CONTEXTS}")
        return context

    def __bool__(self) -> bool:
        return bool(self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def size(self) -> int:
        """The number of contexts."""
        return math.prod(attribute.size for attribute in self.attributes)

    def numbers(self, columns: Sequence[Sequence[Any]]) -> Int64Array:
        """Return (n,) int64: the context of each record, from the n values of each attribute."""
        pairs = zip(self.attributes, columns, strict=True)
        kinds = np.array([[attribute.kind_of(value) for value in column] for attribute, column in pairs], np.int64)
        return np.asarray(np.ravel_multi_index(tuple(kinds), [each.size for each in self.attributes]), np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """By which models and blocks name the context: 16 digits of the SHA-256 of its attributes; empty if none."""
        return hashlib.sha256(json.dumps(list(map(asdict, self.attributes))).encode()).hexdigest()[:16] if self else ""


NO_CONTEXT = Context(())


def _number(value: object) -> float:
    """Return a number, or a text that is one, as float; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
