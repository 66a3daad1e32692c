"""The configuration sections of the mechanisms: their parameters, named as in the constructors of ``core.mechanisms``.

Sections leave out the arguments that every mechanism receives from other sections: taxonomies, numeric attributes,
alpha, the bounds of the window, and the secret.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from stream_masker.service.configuration.base import Alpha, FieldPath, NameText, NonEmptyText, PositiveInt, Section
from stream_masker.service.configuration.parameters.matrices import read_matrix

DistanceName: TypeAlias = Literal["wu_palmer", "log_taxonomic"]
StatisticsDistance: TypeAlias = Annotated[
    DistanceName, Field(description="The semantic distance that the statistics use.")
]


def _by_attributes(schema: dict[str, Any]) -> None:
    """Remove the default from a parameter's schema, because it depends on the attributes (``defaults``)."""
    del schema["default"]


class MechanismSection(Section):
    """The section of one mechanism: its name and its constructor's parameters."""

    name: str

    def parameters(self, resolve: Callable[[str], Path]) -> dict[str, Any]:
        """Return the constructor's arguments; ``resolve`` maps a file name in the configuration to a path.

        Raises ConfigurationError for a file that cannot be read.
        """
        return {name: getattr(self, name) for name in type(self).model_fields if name != "name"}


class SemanticNoiseSection(MechanismSection):
    """Semantic noise (2017): replaces a value by a concept at the distance of a random noise magnitude."""

    name: Literal["semantic_noise"] = Field(default="semantic_noise", description="The masking mechanism.")
    correlated: bool = Field(
        default=True,
        json_schema_extra=_by_attributes,
        description="Whether the noise of all attributes is drawn jointly, from their covariance. Default: `true`, but "
        "`false` for a single attribute and with several arrays.",
    )
    reference: Literal["mean", "pair", "root"] = Field(
        default="mean",
        json_schema_extra=_by_attributes,
        description="The reference of the noise's sign: the attribute's sMean (`mean`), the value of its paired "
        "attribute (`pair`), or the root of its taxonomy (`root`). Default: `pair` for two attributes of one taxonomy "
        "and with `pairs`, `mean` for a single attribute, otherwise `root`.",
    )
    pairs: tuple[tuple[NameText, NameText], ...] | None = Field(
        default=None,
        description="The disjoint pairs of attributes for reference `pair`. Default: the pair of the only two "
        "attributes.",
    )
    distribution: Literal["normal", "laplace"] = Field(default="normal", description="The distribution of the noise.")
    rounding: Literal["ceil", "calibrated"] = Field(
        default="ceil",
        description="The distance level for a noise magnitude. `ceil`: the nearest level at or above it, as in the "
        "papers. `calibrated`: the level below or above it, with an expected squared distance of the squared noise.",
    )
    candidates: Literal["all", "leaves", "observed"] = Field(
        default="all",
        json_schema_extra=_by_attributes,
        description="The allowed replacements: every concept of the taxonomy, also groups of codes such as chapters "
        "(`all`), `leaves` only, or the concepts of the window, drawn by their frequency (`observed`; not with "
        "`ceil`). Default: `leaves` if an attribute's ontology is `icd10cm`, otherwise `all`.",
    )
    distance: DistanceName = Field(default="wu_palmer", description="The semantic distance.")


class MicroaggregationSection(MechanismSection):
    """Microaggregation (2013): replaces the values of k or more similar records by one representative."""

    name: Literal["microaggregation"] = Field(description="The masking mechanism.")
    k: Annotated[int, Field(ge=2)] = Field(
        default=5, description="The minimum number of records in a group of equal masked records; at least 2."
    )
    variant: Literal["semantic", "classic"] = Field(
        default="semantic",
        description="How similarity is measured: by semantic distance (`semantic`), or as equal or different "
        "(`classic`).",
    )
    hybrid: bool = Field(
        default=False,
        description="Whether values are taken from records of the group instead of its mean (2013: Algorithm 1).",
    )
    scaling: Literal["balanced", "paper"] = Field(
        default="balanced", description="How the distances of the attributes are weighted against each other."
    )
    distance: DistanceName = Field(default="log_taxonomic", description="The semantic distance.")


class RankSwappingSection(MechanismSection):
    """Semantic rank swapping (2019): swaps a value with one of the k semantically nearest values."""

    name: Literal["rank_swapping"] = Field(description="The masking mechanism.")
    k: Annotated[int, Field(ge=2)] = Field(default=10, description="The swapping interval in records; at least 2.")
    multivariate: bool = Field(default=False, description="Whether records are swapped as a whole (2019: Algorithm 3).")
    intervals: Literal["dynamic", "fixed"] = Field(
        default="dynamic",
        description="Whether values are ranked again around each value (`dynamic`, 2019: Algorithm 2) or once "
        "(`fixed`, 2019: Algorithm 1).",
    )
    distance: DistanceName = Field(default="wu_palmer", description="The semantic distance.")


UnitInterval: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
ProbabilityRatio: TypeAlias = Annotated[float, Field(ge=1, allow_inf_nan=False)]


class PartitioningSection(MechanismSection):
    """Similarity by co-occurrence and partitions of similar values: parameters that VICUS and Random share."""

    threshold: UnitInterval = Field(
        default=0.6, description="T: the minimum similarity of values that are merged for S''; in [0, 1]."
    )
    c1: UnitInterval = Field(default=0.6, description="The weight of S'; in [0, 1]. The sum of c1 and c2 is 1.")
    c2: UnitInterval = Field(default=0.4, description="The weight of S''; in [0, 1].")
    multigraph: bool = Field(
        default=True, description="Whether the number of co-occurrences counts, or only that values co-occur."
    )
    part_size: PositiveInt = Field(default=2, description="The minimum number of values in a part; at least 1.")
    parts: PositiveInt | None = Field(
        default=None,
        description="The number of parts of an attribute's values; at least 1. Default: chosen by similarity.",
    )
    k1: ProbabilityRatio = Field(
        default=5.0,
        description="The ratio of the probability of keeping a value to that of another value of its part; at least 1.",
    )
    k2: ProbabilityRatio = Field(
        default=20.0,
        description="The ratio of the probability of another value of the same part to that of a value of another "
        "part; at least 1.",
    )
    distance: StatisticsDistance = "wu_palmer"


class VicusSection(PartitioningSection):
    """VICUS (2012): replaces a value by transition probabilities that prefer its part of similar values."""

    name: Literal["vicus"] = Field(description="The masking mechanism.")


class RandomSection(PartitioningSection):
    """Random (2012): keeps a value with the probability of VICUS, otherwise replaces it by any other value."""

    name: Literal["random"] = Field(description="The masking mechanism.")


class NaiveDistortionSection(MechanismSection):
    """Naive distortion: replaces a value by another value of the window, all with equal probability."""

    name: Literal["naive_distortion"] = Field(description="The masking mechanism.")
    distance: StatisticsDistance = "wu_palmer"


class ProbabilisticDistortionSection(MechanismSection):
    """Probabilistic distortion: replaces a value by a value of the window, with probability equal to its frequency."""

    name: Literal["probabilistic_distortion"] = Field(description="The masking mechanism.")
    distance: StatisticsDistance = "wu_palmer"


class PramSection(MechanismSection):
    """The post-randomisation method (PRAM): replaces a value by a given or estimated Markov matrix."""

    name: Literal["pram"] = Field(description="The masking mechanism.")
    matrices: dict[NameText, NonEmptyText] | None = Field(
        default=None,
        description="JSON files of Markov matrices by attribute: `{value: {value: probability}}`. The matrix of an "
        "attribute without a file is estimated.",
    )
    invariant: bool = Field(
        default=False, description="Whether given matrices are made invariant, so that marginals are preserved."
    )
    retention: Annotated[float, Field(ge=0, le=0.999, allow_inf_nan=False)] = Field(
        default=0.5, description="The share of values that an estimated matrix keeps; from 0 to 0.999."
    )
    distance: StatisticsDistance = "wu_palmer"

    def parameters(self, resolve: Callable[[str], Path]) -> dict[str, Any]:
        files = self.matrices or {}
        matrices = {attribute: read_matrix(resolve(file)) for attribute, file in files.items()}
        return {**super().parameters(resolve), "matrices": matrices or None}


Epsilon: TypeAlias = Annotated[float, Field(ge=1e-6, le=1_000, allow_inf_nan=False)]


class ExponentialSection(MechanismSection):
    """The exponential mechanism: replaces a value by a concept, with a probability that decreases with distance."""

    name: Literal["exponential"] = Field(description="The masking mechanism.")
    epsilon: Epsilon | dict[NameText, Epsilon] = Field(
        default=1.0,
        description="The privacy budget of each value, for all attributes or for each; in [0.000001, 1000].",
    )
    candidates: Literal["all", "leaves"] = Field(
        default="all",
        json_schema_extra=_by_attributes,
        description="The allowed replacements: every concept of the taxonomy, also groups of codes such as chapters "
        "(`all`), or `leaves` only. Default: `leaves` if an attribute's ontology is `icd10cm`, otherwise `all`.",
    )
    distance: DistanceName = Field(default="wu_palmer", description="The semantic distance.")


Certainty: TypeAlias = Annotated[float, Field(ge=0.01, le=1, allow_inf_nan=False)]


class SensitiveGroup(Section):
    """The limit of a sensitive group of one's own."""

    limit: Certainty = Field(
        description="The greatest probability of the group given any masked record; from 0.01 to 1."
    )
    roots: tuple[NonEmptyText, ...] = Field(
        min_length=1, description="Its concepts; their descendants belong to it, too."
    )


def _kind_of_context(given: Any) -> str:
    texts = isinstance(given, list | tuple) and any(isinstance(kind, str) for kind in given)
    return "a list of texts" if texts else "a list of bounds"


ContextTexts: TypeAlias = Annotated[tuple[NonEmptyText, ...], Field(min_length=1)]
ContextBounds: TypeAlias = Annotated[
    tuple[Annotated[float, Field(strict=True, allow_inf_nan=False)], ...], Field(min_length=1)
]
ContextKinds: TypeAlias = Annotated[
    Annotated[ContextTexts, Tag("a list of texts")] | Annotated[ContextBounds, Tag("a list of bounds")],
    Discriminator(_kind_of_context),
]
"""The kinds of a field of the context: its texts, or the bounds of its bands."""


class SemanticTransportSection(MechanismSection):
    """Semantic transport: moves records by an optimal random map that preserves the joint law of the attributes."""

    name: Literal["semantic_transport"] = Field(default="semantic_transport", description="The masking mechanism.")
    alpha: Alpha | dict[NameText, Alpha] | None = Field(
        default=None,
        description="The noise level: the mean squared distance of an attribute is alpha·sdVar, more where the promise "
        "needs it. For all attributes or for each; in [0.01, 10]. Default: the `alpha` of each attribute if one has "
        "any, otherwise 1.",
    )
    certainty: Certainty = Field(
        default=0.5,
        description="The greatest probability of a value given any masked record, for everybody who knows all but the "
        "secret and whose prior is the window's law; a value that is more frequent may stay so. From 0.01 to 1, which "
        "promises nothing.",
    )
    least: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=2,
        description="Of how many different noise keys, such as patients, or of records without a noise key, a tuple "
        "must be in the window to be written as such; rarer ones spread within their blocks. At least 1.",
    )
    sensitive: dict[NameText, Certainty | SensitiveGroup] | None = Field(
        default=None,
        description="The same for groups of concepts: a limit by the name of a built-in list (`hiv`, "
        "`mental_disorders`, `substance_use`, `pregnancy_and_abortion`, `sexually_transmitted_infections`, `abuse`), "
        "or its `limit` and `roots` by a name of one's own.",
    )
    context: dict[FieldPath, ContextKinds] | None = Field(
        default=None,
        description="Fields that stay in the record and whose relation to the codes is kept, such as sex and an age "
        "band, by path. Of each the texts that can occur, or the ascending bounds of bands "
        "of numbers; other and missing values are one more kind. A field is read as it is released: it must be kept, "
        "or generalized.",
    )
    distance: DistanceName = Field(default="wu_palmer", description="The semantic distance.")

    def parameters(self, resolve: Callable[[str], Path]) -> dict[str, Any]:
        own = {**super().parameters(resolve), "sensitive": self.model_dump()["sensitive"]}
        return own if self.alpha is not None else {name: each for name, each in own.items() if name != "alpha"}


def needs_group(section: MechanismSection) -> bool:
    """Return whether the mechanism masks records only in groups."""
    from stream_masker.core.mechanisms import MECHANISMS

    return MECHANISMS[section.name].needs_group


def takes_alpha(section: MechanismSection) -> bool:
    """Return whether the noise level of the attributes applies: to mechanisms with noise, and to a transport without
    its own."""
    if isinstance(section, SemanticTransportSection):
        return section.alpha is None
    return takes_record_alpha(section)


def takes_record_alpha(section: MechanismSection) -> bool:
    """Return whether records may bring their own noise level."""
    return "alpha" in _parameters(section.name) and not isinstance(section, SemanticTransportSection)


@cache
def _parameters(name: str) -> frozenset[str]:
    from stream_masker.core.mechanisms import mechanism

    return frozenset(signature(mechanism(name)).parameters)


MechanismSettings: TypeAlias = Annotated[
    SemanticNoiseSection
    | MicroaggregationSection
    | RankSwappingSection
    | VicusSection
    | RandomSection
    | NaiveDistortionSection
    | ProbabilisticDistortionSection
    | PramSection
    | ExponentialSection
    | SemanticTransportSection,
    Field(discriminator="name"),
]
