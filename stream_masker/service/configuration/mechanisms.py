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

from stream_masker.service.configuration.matrices import read_matrix
from stream_masker.service.configuration.section import Section
from stream_masker.service.configuration.types import NameText, Positive, Text

DEFAULT_MECHANISM = "semantic_noise"

DistanceName: TypeAlias = Literal["wu_palmer", "log_taxonomic"]
StatisticsDistance: TypeAlias = Annotated[DistanceName, Field(description="the semantic distance, for statistics")]


class MechanismSection(Section):
    """A mechanism's section: its name, and the constructor's parameters under their own names."""

    name: str

    def parameters(self, resolve: Callable[[str], Path]) -> dict[str, Any]:
        """The constructor's arguments; ``resolve``: from a file's name in the configuration to its path.

        Raises ConfigurationError for a file that cannot be read.
        """
        return {name: getattr(self, name) for name in type(self).model_fields if name != "name"}


class SemanticNoiseSection(MechanismSection):
    """Semantic noise (2017): a value becomes a concept as far away as a random noise."""

    name: Literal["semantic_noise"] = Field(default="semantic_noise", description="the masking mechanism")
    correlated: bool = Field(
        default=True, description="draw the noise of all attributes together, from their covariance"
    )
    reference: Literal["mean", "pair", "root"] = Field(
        default="pair",
        description="what noise's sign refers to: the attribute's sMean, its paired attribute's value, or the root",
    )
    pairs: tuple[tuple[NameText, NameText], ...] | SkipJsonSchema[None] = Field(
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


class MicroaggregationSection(MechanismSection):
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


class IntervalSection(MechanismSection):
    """What mechanisms share that swap within an interval: how long it is."""

    k: Length | dict[NameText, Length] | SkipJsonSchema[None] = Field(
        default=None, description="the swapping interval in records, of all attributes or of each; default: 10"
    )
    p: Share | dict[NameText, Share] | SkipJsonSchema[None] = Field(
        default=None, description="instead of k: in per cent of the group's values, above 0 and below 100"
    )


class RankSwappingSection(IntervalSection):
    """Semantic rank swapping (2019): a value swaps with one of the k that are nearest in meaning."""

    name: Literal["rank_swapping"] = Field(description="the masking mechanism")
    multivariate: bool = Field(default=False, description="swap records as a whole (2019: Algorithm 3)")
    intervals: Literal["dynamic", "fixed"] = Field(
        default="dynamic", description="rank anew around each value (Algorithm 2), or once (Algorithm 1)"
    )
    distance: DistanceName = Field(default="wu_palmer", description="the semantic distance")


class DataSwappingSection(MechanismSection):
    """Data swapping (2019, section 4.2): values swap at random."""

    name: Literal["data_swapping"] = Field(description="the masking mechanism")
    distance: StatisticsDistance = "wu_palmer"


class DistributionalRankSwappingSection(IntervalSection):
    """Distributional rank swapping (2019, section 4.2): a value swaps with one about as frequent."""

    name: Literal["distributional_rank_swapping"] = Field(description="the masking mechanism")
    distance: StatisticsDistance = "wu_palmer"


Unit: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Factor: TypeAlias = Annotated[float, Field(ge=1, allow_inf_nan=False)]


class PartitioningSection(MechanismSection):
    """What VICUS and Random share: similarity by what values occur with, and the parts of similar values."""

    threshold: Unit = Field(default=0.6, description="T: values at least so similar are merged for S''; in [0, 1]")
    c1: Unit = Field(default=0.6, description="the weight of S', in [0, 1]; c1 + c2 is 1")
    c2: Unit = Field(default=0.4, description="the weight of S'', in [0, 1]")
    multigraph: bool = Field(default=True, description="count how often values occur together, not whether")
    part_size: Positive = Field(default=2, description="the fewest values of a part; at least 1")
    parts: Positive | SkipJsonSchema[None] = Field(
        default=None,
        description="into how many parts an attribute's values are put; default: as many as similarity suggests",
    )
    k1: Factor = Field(default=5.0, description="staying is so much likelier than another value of the part")
    k2: Factor = Field(default=20.0, description="and that so much likelier than a value of another part")
    population: Annotated[int, Field(ge=2)] = Field(default=20, description="of the genetic algorithm; at least 2")
    generations: Annotated[int, Field(ge=0)] = Field(default=10, description="of the genetic algorithm")
    partition_seed: Annotated[int, Field(ge=0)] = Field(default=0, description="of the genetic algorithm; no secret")
    most_values: Annotated[int, Field(ge=2)] = Field(
        default=1_000, description="values of an attribute that are parted, the most frequent ones"
    )
    distance: StatisticsDistance = "wu_palmer"


class VicusSection(PartitioningSection):
    """VICUS (2012): a value becomes another by transition probabilities that keep to its part of similar values."""

    name: Literal["vicus"] = Field(description="the masking mechanism")


class RandomSection(PartitioningSection):
    """Random (2012): a value stays as often as with VICUS, and else becomes any other."""

    name: Literal["random"] = Field(description="the masking mechanism")


class NaiveDistortionSection(MechanismSection):
    """Naive distortion: a value becomes any other value of the window, all equally likely."""

    name: Literal["naive_distortion"] = Field(description="the masking mechanism")
    distance: StatisticsDistance = "wu_palmer"


class ProbabilisticDistortionSection(MechanismSection):
    """Probabilistic distortion: a value becomes one of the window's, as likely as it is frequent."""

    name: Literal["probabilistic_distortion"] = Field(description="the masking mechanism")
    distance: StatisticsDistance = "wu_palmer"


class PramSection(MechanismSection):
    """The post-randomisation method: a value becomes another by a given or an estimated Markov matrix."""

    name: Literal["pram"] = Field(description="the masking mechanism")
    matrices: dict[NameText, Text] | SkipJsonSchema[None] = Field(
        default=None,
        description="files of given matrices by attribute (.json, .csv, .tsv); an attribute without one has an "
        "estimated matrix",
    )
    invariant: bool = Field(default=False, description="make given matrices invariant: marginals stay as they are")
    retention: Annotated[float, Field(ge=0, le=0.999, allow_inf_nan=False)] = Field(
        default=0.5, description="the share of values that an estimated matrix keeps, from 0 to 0.999"
    )
    distance: StatisticsDistance = "wu_palmer"

    def parameters(self, resolve: Callable[[str], Path]) -> dict[str, Any]:
        files = self.matrices or {}
        matrices = {attribute: read_matrix(resolve(file)) for attribute, file in files.items()}
        return {**super().parameters(resolve), "matrices": matrices or None}


Epsilon: TypeAlias = Annotated[float, Field(ge=1e-6, le=1_000, allow_inf_nan=False)]


class ExponentialSection(MechanismSection):
    """The exponential mechanism: the nearer a concept is, the likelier a value becomes it."""

    name: Literal["exponential"] = Field(description="the masking mechanism")
    epsilon: Epsilon | dict[NameText, Epsilon] = Field(
        default=1.0, description="the privacy budget of each value, of all attributes or of each; in [0.000001, 1000]"
    )
    candidates: Literal["all", "leaves"] = Field(
        default="all", description="what a replacement may be: every concept of the taxonomy, or leaves only"
    )
    distance: DistanceName = Field(default="wu_palmer", description="the semantic distance")


def kind_of(given: Any) -> str | None:
    """The name of the mechanism that a section is of; semantic noise where it says nothing."""
    name = given.get("name", DEFAULT_MECHANISM) if isinstance(given, Mapping) else getattr(given, "name", None)
    return name if isinstance(name, str) else None


def needs_group(section: MechanismSection) -> bool:
    """Whether the mechanism masks records only as a group."""
    from stream_masker.core.mechanisms import MECHANISMS

    return MECHANISMS[section.name].needs_group


def takes_alpha(section: MechanismSection) -> bool:
    """Whether the mechanism knows a noise level."""
    return "alpha" in _parameters(section.name)


@cache
def _parameters(name: str) -> frozenset[str]:
    from stream_masker.core.mechanisms import mechanism

    return frozenset(signature(mechanism(name)).parameters)


MechanismSettings: TypeAlias = Annotated[
    Annotated[SemanticNoiseSection, Tag("semantic_noise")]
    | Annotated[MicroaggregationSection, Tag("microaggregation")]
    | Annotated[RankSwappingSection, Tag("rank_swapping")]
    | Annotated[DataSwappingSection, Tag("data_swapping")]
    | Annotated[DistributionalRankSwappingSection, Tag("distributional_rank_swapping")]
    | Annotated[VicusSection, Tag("vicus")]
    | Annotated[RandomSection, Tag("random")]
    | Annotated[NaiveDistortionSection, Tag("naive_distortion")]
    | Annotated[ProbabilisticDistortionSection, Tag("probabilistic_distortion")]
    | Annotated[PramSection, Tag("pram")]
    | Annotated[ExponentialSection, Tag("exponential")],
    Discriminator(kind_of),
]
