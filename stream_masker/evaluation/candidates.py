"""The mechanisms to compare, each with the parameters of the papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

from stream_masker.core.mechanisms import MECHANISMS, Mechanism, SemanticNoise, SemanticTransport
from stream_masker.evaluation.dataset import DataSet


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mechanism with parameters.

    ``mechanism``: its name. ``label``: the method and its strength, for readers. ``options``: the parameters of the
    constructor.
    """

    mechanism: str
    label: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, data: DataSet) -> Mechanism:
        """Build and calibrate the mechanism on a data set.

        Raises ParameterError or StatisticsError if the data do not allow it.
        """
        kind, options = MECHANISMS[self.mechanism], dict(self.options)
        if kind.needs_group:
            options["group_records"] = min(batch.size for batch in data.batches)
        return data.calibrated(kind(data.taxonomies, **options, window=max(data.whole.size, 2), seed=data.secret))


Settings: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]
"""The labels and options of candidates."""


def _by(method: str, parameter: str, symbol: str, values: Sequence[float], **options: Any) -> Settings:
    return [(f"{method}, {symbol} = {value:g}", {parameter: value, **options}) for value in values]


def _transitions(method: str) -> Settings:
    """Return k1 and k2 of 2012's Table 3."""
    ratios = ((2.0, 20.0), (5.0, 20.0), (10.0, 10.0), (10.0, 20.0), (10.0, 50.0))
    return [(f"{method}, k1 = {k1:g}, k2 = {k2:g}", {"k1": k1, "k2": k2}) for k1, k2 in ratios]


SETTINGS: Mapping[str, Settings] = {
    "rank_swapping": [
        *_by("Rank swapping Algorithm 1", "k", "k", (2, 10, 50), algorithm="fixed"),
        *_by("Rank swapping Algorithm 2", "k", "k", (2, 10, 50), algorithm="dynamic"),
        *_by("Rank swapping Algorithm 3", "k", "k", (2, 10, 50), algorithm="multivariate"),
    ],
    "microaggregation": _by("Microaggregation", "k", "k", (2, 5, 10, 20)),
    "vicus": _transitions("VICUS"),
    "random": _transitions("Random"),
    "pram": _by("PRAM", "retention", "retention", (0.9, 0.7, 0.5, 0.3)),
    "exponential": _by("Exponential", "epsilon", "ε", (1.0, 5.0, 10.0, 20.0)),
}
"""The candidates of mechanisms that have another strength than α; every other mechanism has one."""

AS_CONFIGURED = "as configured"
"""The label of the method of a configuration, which the report is about."""

NOISE_LEVELS = (0.1, 0.3, 0.5, 1.0)
"""The noise levels of 2017's tables."""

NOISE_METHODS: Mapping[str, Mapping[str, Any]] = {
    "Semantic noise, uncorrelated": {"correlated": False, "reference": "mean"},
    "Semantic noise, correlated, from the mean": {"correlated": True, "reference": "mean"},
    "Semantic noise, correlated, from the pair": {"correlated": True, "reference": "pair"},
    "Semantic noise, correlated, from the root": {"correlated": True, "reference": "root"},
}
"""The methods of 2017, as parameters of semantic noise."""

ROUNDINGS = ("ceil", "calibrated")


def candidates(mechanisms: Sequence[str], alphas: Sequence[float] = NOISE_LEVELS) -> Iterator[Candidate]:
    """Yield the candidates of each mechanism by name. ``alphas``: the noise levels of mechanisms that have one."""
    for name in mechanisms:
        if name == SemanticNoise.name:
            for (method, parameters), rounding, alpha in product(NOISE_METHODS.items(), ROUNDINGS, alphas):
                options = {**parameters, "rounding": rounding, "candidates": "all", "alpha": alpha}
                yield Candidate(name, f"{method}, {rounding}, α = {alpha:g}", options)
        elif name == SemanticTransport.name:
            for alpha in alphas:
                yield Candidate(name, f"Semantic transport, α = {alpha:g}", {"alpha": alpha, "certainty": 1.0})
        else:
            for setting in SETTINGS.get(name, [(name.replace("_", " "), {})]):
                yield Candidate(name, *setting)
