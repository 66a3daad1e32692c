"""What the documentation is generated from: every import of the package that the pages need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stream_masker import (
    Exponential,
    LogTaxonomic,
    Ontology,
    Pram,
    RandomTransitions,
    RankSwapping,
    SemanticTransport,
    Statistics,
    Taxonomy,
    Vicus,
    WuPalmer,
    distance_correlation,
    distance_covariance,
    distance_variance,
    semantic_mean,
    semantic_variance,
)
from stream_masker.cli import COMMANDS, EXIT_CODES
from stream_masker.core.distance import Distance
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.mechanisms.microaggregation import (
    group_means,
    marginality_variance,
    mdav,
    near_values,
)
from stream_masker.core.mechanisms.semantic_noise import NoiseSampler
from stream_masker.core.mechanisms.transport.certainty import least_redraw
from stream_masker.core.mechanisms.transport.fit import levelled
from stream_masker.core.mechanisms.transport.given import Given
from stream_masker.core.mechanisms.vicus import ValueGraph, stay_probability
from stream_masker.core.replacement import Replacer
from stream_masker.core.risk.law import hoeffding_bound
from stream_masker.core.risk.risk import disclosure
from stream_masker.core.statistics.drift import AttributeUtility, PairUtility
from stream_masker.core.statistics.statistics import nearest_psd
from stream_masker.core.statistics.windows import jensen_shannon
from stream_masker.pipeline.records import Reason
from stream_masker.service.configuration import configuration_schema
from stream_masker.service.observability.metrics import ALL_METRICS

__all__ = [
    "ALL_METRICS",
    "COMMANDS",
    "EXIT_CODES",
    "MECHANISMS",
    "AttributeUtility",
    "Distance",
    "Exponential",
    "Given",
    "LogTaxonomic",
    "Mechanism",
    "NoiseSampler",
    "Ontology",
    "PairUtility",
    "Pram",
    "RandomTransitions",
    "RankSwapping",
    "Reason",
    "Replacer",
    "SemanticTransport",
    "Statistics",
    "Taxonomy",
    "ValueGraph",
    "Vicus",
    "WuPalmer",
    "configuration_schema",
    "disclosure",
    "distance_correlation",
    "distance_covariance",
    "distance_variance",
    "group_means",
    "hoeffding_bound",
    "jensen_shannon",
    "least_redraw",
    "levelled",
    "load_schema",
    "marginality_variance",
    "mdav",
    "near_values",
    "nearest_psd",
    "semantic_mean",
    "semantic_variance",
    "stay_probability",
]


def load_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a message."""
    return json.loads((Path(__file__).parents[1] / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
