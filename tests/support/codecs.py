"""Results of masking as plain values, and what was counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_masker.core.statistics.counts import Counts


def as_plain(value: Any) -> Any:
    """Arrays as lists, so that results can be compared."""
    if isinstance(value, np.ndarray):
        return [str(x) for x in value.tolist()]
    if isinstance(value, list | tuple):
        return [as_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): as_plain(one) for key, one in value.items()}
    fields = getattr(value, "__dataclass_fields__", None)
    return {name: as_plain(getattr(value, name)) for name in fields} if fields else value


def texts_counted(on_bench: Any, counts: Counts) -> list[dict[str, int]]:
    """The number of occurrences of each concept, by attribute."""
    return [
        dict(zip(on_bench.taxonomy.decode(column.keys), column.counts.tolist(), strict=True))
        for column in counts.values
    ]
