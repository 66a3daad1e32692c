"""What the documentation is generated from: every import of the package that the pages need."""

from __future__ import annotations

from stream_masker import LogTaxonomic, Ontology, SemanticNoise, Vicus, WuPalmer
from stream_masker.cli import COMMANDS
from stream_masker.core.distance import Distance
from stream_masker.core.drift import jensen_shannon
from stream_masker.core.marginality import (
    SDistance,
    marginality,
    marginality_covariance,
    marginality_mean,
    marginality_variance,
)
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.mechanisms.aggregation import least_marginal, within_radius
from stream_masker.core.mechanisms.declaration import Declaration
from stream_masker.core.mechanisms.exponential import Exponential
from stream_masker.core.mechanisms.mdav import partition
from stream_masker.core.mechanisms.noise import Noise
from stream_masker.core.mechanisms.numeric_noise import NumericNoise
from stream_masker.core.mechanisms.pram import Pram
from stream_masker.core.mechanisms.random_transitions import RandomTransitions
from stream_masker.core.mechanisms.rank_swapping import RankSwapping
from stream_masker.core.mechanisms.replacement import replacer
from stream_masker.core.mechanisms.vicus_model import stay_probability
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.similarity import ValueGraph
from stream_masker.core.statistics import (
    Statistics,
    distance_correlation,
    distance_covariance,
    distance_variance,
    semantic_mean,
    semantic_variance,
)
from stream_masker.core.statistics.psd import nearest_psd
from stream_masker.core.utility import AttributeUtility, PairUtility
from stream_masker.evaluation.chi_square import chi_square
from stream_masker.evaluation.entropy import entropy
from stream_masker.evaluation.linkage import record_linkage
from stream_masker.evaluation.sse import sum_of_squared_errors
from stream_masker.pipeline.reasons import Reason
from stream_masker.service.configuration import configuration_schema, load_schema
from stream_masker.service.metrics_table import TABLE as METRICS

__all__ = [
    "COMMANDS",
    "MECHANISMS",
    "METRICS",
    "AttributeUtility",
    "Declaration",
    "Distance",
    "Exponential",
    "LogTaxonomic",
    "Noise",
    "NumericNoise",
    "Ontology",
    "PairUtility",
    "Pram",
    "RandomTransitions",
    "RankSwapping",
    "Reason",
    "SDistance",
    "SemanticNoise",
    "Statistics",
    "Taxonomy",
    "ValueGraph",
    "Vicus",
    "WuPalmer",
    "chi_square",
    "configuration_schema",
    "distance_correlation",
    "distance_covariance",
    "distance_variance",
    "entropy",
    "jensen_shannon",
    "load_schema",
    "marginality",
    "marginality_covariance",
    "marginality_mean",
    "marginality_variance",
    "least_marginal",
    "nearest_psd",
    "partition",
    "record_linkage",
    "replacer",
    "semantic_mean",
    "semantic_variance",
    "stay_probability",
    "sum_of_squared_errors",
    "within_radius",
]
