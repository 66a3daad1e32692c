"""The mechanisms to compare, each with the parameters of the papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product, starmap
from typing import Any

from stream_masker.core.mechanisms import MECHANISMS, Mechanism, SemanticNoise, SemanticTransport
from stream_masker.evaluation.dataset import DataSet

NOISE_LEVELS = (0.1, 0.3, 0.5, 1.0)
"""The noise levels of 2017's tables."""

NOISE_METHODS: Mapping[str, Mapping[str, Any]] = {
    "Uncorrelated-Algorithm1": {"correlated": False, "reference": "mean"},
    "Correlated-Algorithm1": {"correlated": True, "reference": "mean"},
    "Correlated-Algorithm2": {"correlated": True, "reference": "pair"},
    "Correlated-Algorithm3": {"correlated": True, "reference": "root"},
}
"""The methods of 2017, as parameters of semantic noise."""

PLAIN_NAMES: Mapping[str, str] = {
    "Uncorrelated-Algorithm1": "Semantic noise, uncorrelated",
    "Correlated-Algorithm1": "Semantic noise, correlated, from the mean",
    "Correlated-Algorithm2": "Semantic noise, correlated, from the pair",
    "Correlated-Algorithm3": "Semantic noise, correlated, from the root",
}
"""What the methods of 2017 are called where all methods are compared: by their parameters."""

ROUNDINGS_COMPARED = ("ceil", "calibrated")
SWAPPING_VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "Algorithm 1": {"intervals": "fixed"},
    "Algorithm 2": {"intervals": "dynamic"},
    "Algorithm 3": {"multivariate": True},
}
"""The algorithms of 2019, as parameters of rank swapping."""

SWAPPING_INTERVALS = (2, 10, 50)

GROUP_SIZES = (2, 5, 10, 20)
TRANSITION_RATIOS = ((2.0, 20.0), (5.0, 20.0), (10.0, 10.0), (10.0, 20.0), (10.0, 50.0))
"""k1 and k2 of 2012's Table 3."""

RETENTIONS = (0.9, 0.7, 0.5, 0.3)
EPSILONS = (1.0, 5.0, 10.0, 20.0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mechanism with parameters.

    ``mechanism``: its name. ``method``: the name of the method in the papers. ``setting``: the strength, as text.
    ``options``: the parameters of the constructor.
    """

    mechanism: str
    method: str
    setting: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The method, without the names that only 2017 has, and its setting."""
        method = PLAIN_NAMES.get(self.method, self.method)
        return f"{method}, {self.setting}" if self.setting else method

    def build(self, data: DataSet) -> Mechanism:
        """Build and calibrate the mechanism on a data set.

        Raises ParameterError or StatisticsError if the data do not allow it.
        """
        kind = MECHANISMS[self.mechanism]
        options = dict(self.options)
        if kind.needs_group:
            options["group_records"] = min(batch.size for batch in data.batches)
        built = kind(data.taxonomies, **options, window=max(data.whole.size, 2), seed=data.secret)
        return data.calibrated(built)


def noise_candidate(method: str, rounding: str, alpha: float) -> Candidate:
    """Return a method of 2017 with a rounding and a noise level."""
    parameters = {**NOISE_METHODS[method], "rounding": rounding, "candidates": "all", "alpha": alpha}
    return Candidate(SemanticNoise.name, method, f"{rounding}, α = {alpha:g}", parameters)


def candidates(mechanisms: Sequence[str], alphas: Sequence[float] = NOISE_LEVELS) -> Iterator[Candidate]:
    """Yield the candidates of each mechanism by name. ``alphas``: the noise levels of mechanisms that have one."""
    for name in mechanisms:
        if name == SemanticNoise.name:
            yield from starmap(noise_candidate, product(NOISE_METHODS, ROUNDINGS_COMPARED, alphas))
        elif name == SemanticTransport.name:
            for alpha in alphas:
                yield Candidate(name, "Semantic transport", f"α = {alpha:g}", {"alpha": alpha, "certainty": 1.0})
        else:
            for setting in GRIDS.get(name, [(name.replace("_", " "), "", {})]):
                yield Candidate(name, *setting)


Grid = Sequence[tuple[str, str, Mapping[str, Any]]]
"""The method, setting and options of candidates."""


def _by(method: str, parameter: str, symbol: str, values: Sequence[float]) -> Grid:
    return [(method, f"{symbol} = {value:g}", {parameter: value}) for value in values]


GRIDS: Mapping[str, Grid] = {
    "rank_swapping": [
        (f"Rank swapping {method}", f"k = {k}", {**options, "k": k})
        for (method, options), k in product(SWAPPING_VARIANTS.items(), SWAPPING_INTERVALS)
    ],
    "microaggregation": [
        (f"Microaggregation ({variant})", f"k = {k}", {"variant": variant, "k": k})
        for variant, k in product(("semantic", "classic"), GROUP_SIZES)
    ],
    **{
        method.lower(): [(method, f"k1 = {k1:g}, k2 = {k2:g}", {"k1": k1, "k2": k2}) for k1, k2 in TRANSITION_RATIOS]
        for method in ("VICUS", "Random")
    },
    "pram": _by("PRAM", "retention", "retention", RETENTIONS),
    "exponential": _by("Exponential", "epsilon", "ε", EPSILONS),
}
"""The candidates of mechanisms that have another strength than α; every other mechanism has one."""
