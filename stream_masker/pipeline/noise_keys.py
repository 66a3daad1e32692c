"""Noise keys of runs: what the random draws of each record depend on, besides the secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.random.keys import FieldKeys, Keys, PositionKeys
from stream_masker.pipeline.codec.decoded import DecodedBatch
from stream_masker.pipeline.packing import ConcatenatedKeys
from stream_masker.pipeline.runs import Run, run_spans


class NoiseKeys:
    """by_field: noise depends on a field of the record, not on the record's topic, partition and offset."""

    def __init__(self, secret: bytes, *, by_field: bool) -> None:
        self._secret = secret
        self._by_field = by_field
        self._identities: Mapping[str, str] = {}

    def set_identities(self, identities: Mapping[str, str]) -> None:
        """Set what distinguishes each topic from an earlier one of the same name; positions include it."""
        self._identities = dict(identities)

    def source(self, topic: str) -> str:
        """Return the topic with what distinguishes it from an earlier one of the same name."""
        identity = self._identities.get(topic)
        return f"{topic}\0{identity}" if identity else topic

    def of(self, runs: Sequence[Run], decoded: DecodedBatch[Any]) -> Keys:
        """Return the keys of the decoded records of runs that were decoded together."""
        if self._by_field:
            return FieldKeys(self._secret, decoded.keys)
        keys = [
            self._position_keys(run, decoded.indices[slice(*np.searchsorted(decoded.indices, span))] - span[0])
            for run, span in run_spans(runs)
        ]
        return keys[0] if len(keys) == 1 else ConcatenatedKeys(keys)

    def _position_keys(self, run: Run, indices: Int64Array) -> Keys:
        offsets = np.array(run.records.offsets, dtype=np.int64)
        return PositionKeys(self._secret, self.source(run.topic), run.partition, offsets[indices])
