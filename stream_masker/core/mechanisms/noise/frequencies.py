"""The frequencies of a window's concepts as part of the model, for ``candidates="observed"``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stream_masker.core.mechanisms.noise.held import TOLERANCE
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_model_field, unpack_counts
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.replacement.observed.frequencies import ConceptFrequencies
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics

FREQUENCIES = "frequencies"
"""The key of the frequencies in ``Statistics.model``."""


def window_frequencies(counts: Counts) -> list[ConceptFrequencies]:
    """Return the concepts of a window and their frequencies, for each attribute."""
    return [ConceptFrequencies(column.keys.astype(np.int32), column.counts) for column in counts.values]


def pack_frequencies(attributes: Sequence[str], frequencies: Sequence[ConceptFrequencies]) -> dict[str, Any]:
    """Return the frequencies by attribute, JSON-serialisable."""
    return {
        name: {"values": pack_array(found.positions), "counts": pack_array(found.counts)}
        for name, found in zip(attributes, frequencies, strict=True)
    }


def read_frequencies(model: Mapping[str, Any], taxonomies: Mapping[str, Taxonomy]) -> list[ConceptFrequencies]:
    """Return the frequencies that ``pack_frequencies`` packed. Raises StatisticsError if they are missing or
    invalid."""
    packed = read_model_field(model, FREQUENCIES)
    return [_unpack(read_model_field(packed, name), len(tau)) for name, tau in taxonomies.items()]


def with_frequencies(
    held: Mapping[str, Any], previous: Statistics | None, taxonomies: Mapping[str, Taxonomy], counts: Counts
) -> dict[str, Any]:
    """Return the held moments with the held frequencies if both differ little, else the window's own frequencies.

    ``held``: the result of ``held_moments``, empty if the moments are not held. ``previous``: the statistics that were
    in force.
    """
    own = window_frequencies(counts)
    model = previous.model if held and previous else {}
    if FREQUENCIES in model and are_near(read_frequencies(model, taxonomies), own):
        return {**held, FREQUENCIES: model[FREQUENCIES]}
    return {FREQUENCIES: pack_frequencies(list(taxonomies), own)}


def are_near(held: Sequence[ConceptFrequencies], own: Sequence[ConceptFrequencies]) -> bool:
    """Return whether the total variation distance of each attribute's frequencies is at most ``TOLERANCE``."""
    return all(total_variation(a, b) <= TOLERANCE for a, b in zip(held, own, strict=True))


def total_variation(a: ConceptFrequencies, b: ConceptFrequencies) -> float:
    """Return the total variation distance of two laws of concepts, in [0, 1]."""
    size = int(max(a.positions[-1], b.positions[-1])) + 1
    first, second = (np.bincount(x.positions, x.counts / x.counts.sum(), size) for x in (a, b))
    return float(np.abs(first - second).sum()) / 2


def _unpack(packed: object, taxonomy_size: int) -> ConceptFrequencies:
    domain = unpack_counts(packed if isinstance(packed, Mapping) else {}, taxonomy_size)
    counts = np.diff(domain.cumulative, prepend=0.0).astype(np.int64)
    used = counts > 0
    return ConceptFrequencies(domain.trie.values[used], counts[used])
