"""stream-masker: semantic noise for nominal health data in Kafka.

``__all__`` has the names that most people need. The rest of the public interface is in ``stream_masker.mechanisms``,
``stream_masker.ontologies``, ``stream_masker.distances``, ``stream_masker.statistics`` and ``stream_masker.errors``.
Modules are imported on first use, so that importing the package, which every command does, is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_masker.core.distance import LogTaxonomic, WuPalmer
    from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
    from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport
    from stream_masker.core.ontology import Ontology
    from stream_masker.core.statistics import (
        distance_correlation,
        distance_covariance,
        distance_variance,
        semantic_mean,
        semantic_variance,
    )
    from stream_masker.frames import FrameMasker, mask_frame
    from stream_masker.measures import measure_drift, measure_utility

__version__ = "0.1.0"

__all__ = [
    "FrameMasker",
    "LogTaxonomic",
    "Ontology",
    "SemanticNoise",
    "SemanticTransport",
    "WuPalmer",
    "distance_correlation",
    "distance_covariance",
    "distance_variance",
    "mask_frame",
    "measure_drift",
    "measure_utility",
    "semantic_mean",
    "semantic_variance",
]

_MODULES = {
    "FrameMasker": "frames",
    "LogTaxonomic": "distances",
    "Ontology": "ontologies",
    "SemanticNoise": "mechanisms",
    "SemanticTransport": "mechanisms",
    "WuPalmer": "distances",
    "distance_correlation": "statistics",
    "distance_covariance": "statistics",
    "distance_variance": "statistics",
    "mask_frame": "frames",
    "measure_drift": "measures",
    "measure_utility": "measures",
    "semantic_mean": "statistics",
    "semantic_variance": "statistics",
}

_NAMED_MODULES = ("distances", "mechanisms", "ontologies", "statistics")
"""The modules whose names can be imported from here as well, as earlier releases had them."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    for module in _NAMED_MODULES if name[:1] != "_" else ():
        holder = importlib.import_module(f"{__name__}.{module}")
        if name in holder.__all__:
            return getattr(holder, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
