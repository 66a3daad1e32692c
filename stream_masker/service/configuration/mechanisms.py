"""The mechanisms' sections: their parameters, as the constructors in ``core.mechanisms`` take them.

What every mechanism gets from elsewhere in the configuration (taxonomies, numeric attributes, alpha, the window's
bounds, the secret) stands in no section here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag
from pydantic.json_schema import SkipJsonSchema

from stream_masker.service.configuration.section import Section
from stream_masker.service.configuration.types import Name

DEFAULT = "semantic_noise"

DistanceName: TypeAlias = Literal["wu_palmer", "log_taxonomic"]


class Mechanism(Section):
    """A mechanism's section: its name, and the constructor's parameters under their own names."""

    name: str

    def parameters(self, resolve: Callable[[str], Path]) -> dict[str, Any]:
        """The constructor's arguments; ``resolve``: from a file's name in the configuration to its path.

        Raises ConfigurationError for a file that cannot be read.
        """
        return {name: getattr(self, name) for name in type(self).model_fields if name != "name"}


class SemanticNoise(Mechanism):
    """Semantic noise (2017): a value becomes a concept as far away as a random noise."""

    name: Literal["semantic_noise"] = Field(default="semantic_noise", description="the masking mechanism")
    correlated: bool = Field(
        default=True, description="draw the noise of all attributes together, from their covariance"
    )
    reference: Literal["mean", "pair", "root"] = Field(
        default="pair",
        description="what noise's sign refers to: the attribute's sMean, its paired attribute's value, or the root",
    )
    pairs: tuple[tuple[Name, Name], ...] | SkipJsonSchema[None] = Field(
        default=None,
        description="for reference pair: the disjoint pairs of attributes; default: the only two attributes",
    )
    distribution: Literal["normal", "laplace"] = Field(default="normal", description="the noise's distribution")
    rounding: Literal["ceil", "calibrated"] = Field(
        default="calibrated",
        description="ceil: the papers' rule; calibrated: the expected squared distance is the noise's square",
    )
    candidates: Literal["all", "leaves"] = Field(
        default="all", description="what a replacement may be: every concept of the taxonomy, or leaves only"
    )
    numeric_noise: Literal["correlated", "uncorrelated", "kim"] | SkipJsonSchema[None] = Field(
        default=None,
        description="the noise of numeric attributes: together, one by one, or together with variances kept (Kim); "
        "default: as correlated says",
    )
    distance: DistanceName = Field(default="wu_palmer", description="the semantic distance")


class Microaggregation(Mechanism):
    """Microaggregation (2013): groups of at least k near records get one representative."""

    name: Literal["microaggregation"] = Field(description="the masking mechanism")
    k: Annotated[int, Field(ge=2)] = Field(default=5, description="the fewest records of a group that become alike")
    variant: Literal["semantic", "classic"] = Field(
        default="semantic", description="semantic: near in meaning; classic: equal or not"
    )
    hybrid: bool = Field(
        default=False, description="take values of the group's records instead of its mean (2013: Algorithm 1)"
    )
    scaling: Literal["balanced", "paper"] = Field(
        default="balanced", description="how the attributes' distances are weighed against each other"
    )
    distance: DistanceName = Field(default="log_taxonomic", description="the semantic distance")


Length: TypeAlias = Annotated[int, Field(ge=1)]
Share: TypeAlias = Annotated[float, Field(gt=0, lt=100, allow_inf_nan=False)]


class RankSwapping(Mechanism):
    """Semantic rank swapping (2019): a value swaps with one of the k that are nearest in meaning."""

    name: Literal["rank_swapping"] = Field(description="the masking mechanism")
    k: Length | dict[Name, Length] | SkipJsonSchema[None] = Field(
        default=None, description="the swapping interval in records, of all attributes or of each; default: 10"
    )
    p: Share | dict[Name, Share] | SkipJsonSchema[None] = Field(
        default=None, description="instead of k: in per cent of the group's values, above 0 and below 100"
    )
    multivariate: bool = Field(default=False, description="swap records as a whole (2019: Algorithm 3)")
    intervals: Literal["dynamic", "fixed"] = Field(
        default="dynamic", description="rank anew around each value (Algorithm 2), or once (Algorithm 1)"
    )
    distance: DistanceName = Field(default="wu_palmer", description="the semantic distance")


class DataSwapping(Mechanism):
    """Data swapping (2019, section 4.2): values swap at random."""

    name: Literal["data_swapping"] = Field(description="the masking mechanism")
    distance: DistanceName = Field(default="wu_palmer", description="the semantic distance, for statistics")


class DistributionalRankSwapping(Mechanism):
    """Distributional rank swapping (2019, section 4.2): a value swaps with one about as frequent."""

    name: Literal["distributional_rank_swapping"] = Field(description="the masking mechanism")
    k: Length | dict[Name, Length] | SkipJsonSchema[None] = Field(
        default=None, description="the swapping interval in records, of all attributes or of each; default: 10"
    )
    p: Share | dict[Name, Share] | SkipJsonSchema[None] = Field(
        default=None, description="instead of k: in per cent of the group's values, above 0 and below 100"
    )
    distance: DistanceName = Field(default="wu_palmer", description="the semantic distance, for statistics")


def kind_of(given: Any) -> str | None:
    """The name of the mechanism that a section is of; semantic noise where it says nothing."""
    name = given.get("name", DEFAULT) if isinstance(given, Mapping) else getattr(given, "name", None)
    return name if isinstance(name, str) else None


def needs_group(section: Mechanism) -> bool:
    """Whether the mechanism masks records only as a group."""
    from stream_masker.core.mechanisms import MECHANISMS

    return MECHANISMS[section.name].needs_group


def takes_alpha(section: Mechanism) -> bool:
    """Whether the mechanism knows a noise level."""
    return "alpha" in _parameters(section.name)


@cache
def _parameters(name: str) -> frozenset[str]:
    from stream_masker.core.mechanisms import mechanism

    return frozenset(signature(mechanism(name)).parameters)


MechanismSettings: TypeAlias = Annotated[
    Annotated[SemanticNoise, Tag("semantic_noise")]
    | Annotated[Microaggregation, Tag("microaggregation")]
    | Annotated[RankSwapping, Tag("rank_swapping")]
    | Annotated[DataSwapping, Tag("data_swapping")]
    | Annotated[DistributionalRankSwapping, Tag("distributional_rank_swapping")],
    Discriminator(kind_of),
]
