"""The replacement engine for concepts in use in a low tree: the bitset engine, with frequencies as ranks."""

from __future__ import annotations

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.replacement.level_bitsets import level_bitsets
from stream_masker.core.replacement.observed.frequencies import ConceptFrequencies
from stream_masker.core.replacement.rule import Replacement, ReplacementTask
from stream_masker.core.replacement.tree_bitset import replace_all_by_bitset
from stream_masker.core.replacement.tree_table import level_table


class ObservedTreeReplacer:
    """The ``Replacer`` for trees of height ``MAX_HEIGHT`` or less whose candidates are the concepts of a window.

    The distance depends on depths alone. Memory does not depend on the number of values that are replaced.
    """

    def __init__(self, distance: Distance, frequencies: ConceptFrequencies, *, calibrated: bool) -> None:
        """``calibrated``: the rounding. Raises ParameterError for a concept outside the taxonomy."""
        tau = distance.taxonomy
        frequencies.require_within(len(tau))
        weights = np.zeros(len(tau) + 1, np.int64)
        weights[frequencies.positions + 1] = frequencies.weights
        self._calibrated = calibrated
        self._bitsets = level_bitsets(distance)
        self._table = level_table(tau, self._bitsets, np.cumsum(weights).astype(np.int32))

    def replace(self, task: ReplacementTask) -> Replacement:
        """Replace every value of the task."""
        rows = (task.codes, task.references, task.noise, task.rounding, task.ties)
        weak = self._calibrated
        return Replacement(*replace_all_by_bitset(self._table, self._bitsets, self._calibrated, weak, *rows))
