"""What contracts and twins examine of the core beyond its public names, in one place for whoever writes a part anew."""

# ruff: noqa: F401 - imported for others

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stream_masker.core import random
from stream_masker.core.batch import Batch, Column
from stream_masker.core.kernels import SIGN_DROPPED, TRUNCATED
from stream_masker.core.mechanisms import grouped
from stream_masker.core.mechanisms.grouped import GroupValues
from stream_masker.core.mechanisms.microaggregation import group_means, mdav, near_values
from stream_masker.core.mechanisms.rank_swapping import swap_partners
from stream_masker.core.mechanisms.vicus import ValueGraph, divided
from stream_masker.core.random import FieldKeys, PositionKeys
from stream_masker.core.replacement import Candidates, Replacer
from stream_masker.core.statistics.counts import key_slots
from stream_masker.core.table import DistanceTable
from stream_masker.pipeline.transforms import Pseudonyms


@contextmanager
def groups_drawn(number: int) -> Iterator[None]:
    """Let figures of mechanisms that mask groups be estimated from this number of random groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped, "MAX_GROUPS", number)
        yield
