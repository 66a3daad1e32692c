"""Semantic distances between the concepts of a taxonomy."""

from __future__ import annotations

from stream_masker.core.distance import LogTaxonomic, WuPalmer

__all__ = ["LogTaxonomic", "WuPalmer"]
