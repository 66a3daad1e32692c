"""Downstream use: a model that learns from masked records and predicts original ones.

The model is naive Bayes (multinomial, with Laplace smoothing). Its features are the concepts above a code at each depth
of the taxonomy, the code included, so that it can learn from codes and from inner concepts. It learns from half of the
records, masked, and is tested on the other half, unmasked. So the comparison is with a model that learns from the same
half, unmasked, and with the most frequent class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stream_masker.core.arrays import frozen_array, located
from stream_masker.core.dtypes import BoolArray, Float64Array, Int64Array
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.ontology.taxonomy import to_level

CHAPTER_DEPTH = 2
"""The depth of chapters, the classes to predict: the children of the root."""

FEATURE_DEPTH = 8
"""The depth down to which concepts are features."""

KNOWN_TAXONOMIES = 8
"""The number of taxonomies whose ancestors are kept: those of all methods that are measured on the same data."""


@dataclass(frozen=True, slots=True, eq=False)
class FeatureChances:
    """The chances of one feature. ``values``: (u,) int64, sorted, those learned from. ``logs``: (u + 1, c), the
    logarithms of their chances in each class; the last row is that of all other values."""

    values: Int64Array
    logs: Float64Array

    @classmethod
    def fit(cls, feature: Int64Array, label: Int64Array, size: int, classes: int) -> FeatureChances:
        """Learn from (n,) int64 values below ``size`` and (n,) labels below ``classes``."""
        values, which = np.unique(feature, return_inverse=True)
        counts = np.bincount(which * classes + label, minlength=(values.size + 1) * classes).reshape(-1, classes)
        return cls(values, np.log((counts + 1.0) / (counts.sum(axis=0) + float(size))))

    def of(self, feature: Int64Array) -> Float64Array:
        """Return (n, c): the logarithm of the chance of each of (n,) values in each class."""
        place, known = located(self.values, feature)
        return self.logs[np.where(known, place, self.values.size)]


@dataclass(frozen=True, slots=True, eq=False)
class NaiveBayes:
    """A fitted model. ``classes``: (c,) int64. ``prior``: (c,), as logarithms. ``chances``: those of each feature."""

    classes: Int64Array
    prior: Float64Array
    chances: tuple[FeatureChances, ...]

    @classmethod
    def fit(cls, features: Sequence[Int64Array], labels: Int64Array, sizes: Sequence[int]) -> NaiveBayes:
        """Learn from (n,) int64 features below ``sizes`` and (n,) labels."""
        classes, label = np.unique(labels, return_inverse=True)
        prior = np.log((np.bincount(label) + 1.0) / (label.size + classes.size))
        learned = zip(features, sizes, strict=True)
        return cls(classes, prior, tuple(FeatureChances.fit(f, label, size, classes.size) for f, size in learned))

    def predict(self, features: Sequence[Int64Array]) -> Int64Array:
        """Return (n,) int64: the most probable label of each record."""
        best: Int64Array = self.classes[np.argmax(self.scores(features), axis=1)]
        return best

    def scores(self, features: Sequence[Int64Array]) -> Float64Array:
        """Return (n, c): the logarithm of the probability of each class, up to a constant of the record."""
        return np.asarray(self.prior + sum(c.of(f) for c, f in zip(self.chances, features, strict=True)))


def accuracy_of(
    learned: Sequence[Int64Array],
    labels: Int64Array,
    tested: Sequence[Int64Array],
    truth: Int64Array,
    taxonomies: Sequence[Taxonomy],
    learn: BoolArray,
    test: BoolArray,
) -> float:
    """Return the share of correct predictions.

    learned, tested: (n,) positions of each attribute in the records to learn from and to test on. labels, truth: (n,)
    their classes. learn, test: (n,) the records of each half.
    """
    encoders = [AncestorFeatures.of(tau) for tau in taxonomies]
    sizes = [size for encoder in encoders for size in encoder.sizes]
    model = NaiveBayes.fit(ancestor_features(encoders, learned, learn), labels[learn], sizes)
    return float((model.predict(ancestor_features(encoders, tested, test)) == truth[test]).mean())


def ancestor_features(
    encoders: Sequence[AncestorFeatures], codes: Sequence[Int64Array], rows: BoolArray
) -> list[Int64Array]:
    """Return the features of some records: the ancestors of each attribute's codes."""
    return [table[values[rows]] for encoder, values in zip(encoders, codes, strict=True) for table in encoder.tables]


@dataclass(frozen=True, slots=True, eq=False)
class AncestorFeatures:
    """The ancestors of every concept. ``tables``: for each depth (concepts,) int64, 0 for a concept above it."""

    tables: tuple[Int64Array, ...]

    @classmethod
    @lru_cache(maxsize=KNOWN_TAXONOMIES)
    def of(cls, taxonomy: Taxonomy) -> AncestorFeatures:
        depth = min(FEATURE_DEPTH, int(taxonomy.depth.max(initial=1)))
        return cls(tuple(ancestors_at(taxonomy, d) + 1 for d in range(CHAPTER_DEPTH, depth + 1)))

    @property
    def sizes(self) -> list[int]:
        return [table.size + 1 for table in self.tables]


@lru_cache(maxsize=KNOWN_TAXONOMIES * FEATURE_DEPTH)
def ancestors_at(taxonomy: Taxonomy, depth: int) -> Int64Array:
    """Return (m,) int64, read-only: the position of the ancestor of each concept at a depth; -1 for one above it."""
    return frozen_array(np.where(taxonomy.depth >= depth, to_level(taxonomy, depth), -1).astype(np.int64))


def chapters(codes: Int64Array, taxonomy: Taxonomy) -> Int64Array:
    """Return (n,) int64: the chapter of each code; -1 for the root and for absent values."""
    return np.asarray(np.append(ancestors_at(taxonomy, CHAPTER_DEPTH), -1)[codes])
