"""Which records are counted: by their positions, the same ones for every worker that knows the secret."""

from __future__ import annotations

from typing import Final

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.random import PositionKeys, Secret

MAX_LEVEL: Final = 53
"""The greatest level. Levels are computed from 53 bits of a word, which a float64 holds exactly."""


class PositionSampler:
    """Computes the levels of positions: a level of l or more has the probability 2⁻ˡ."""

    def __init__(self, secret: bytes | Secret) -> None:
        """Raises ParameterError if the secret is empty."""
        self._secret = secret if isinstance(secret, Secret) else Secret(secret)

    def levels(self, topic: str, partition: int, offsets: Int64Array) -> Int64Array:
        """Return (n,) int64: the levels, 0 … ``MAX_LEVEL``, of (n,) offsets of a partition. No offset is negative."""
        digests = PositionKeys(self._secret, topic, partition, offsets).digests
        high = self._secret.cipher(b"masker-sampling").words(digests)[:, 0] >> np.uint64(64 - MAX_LEVEL)
        return (MAX_LEVEL - np.frexp(high.astype(np.float64))[1]).astype(np.int64)
