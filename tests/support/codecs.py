"""The scanner compared with the reference codec."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_masker.core.statistics.counts import Counts
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import InputRecord, Inputs

SECRET = b"a secret of the tests"


class CodecPair:
    """Two record maskers for the same plan: one with the scanner, one with the reference codec alone."""

    def __init__(self, bench: Any, attributes: dict[str, Any], **given: Any) -> None:
        self.bench = bench(attributes, **given)
        self.compiled = self.bench.masker
        self.literal = RecordMasker(self.bench.plan, self.bench.mechanism, SECRET, compiled=False)
        assert self.compiled.is_compiled
        assert not self.literal.is_compiled

    def check(self, values: list[bytes | None], **record: Any) -> Any:
        """Asserts that both maskers give the same results; returns the result."""
        records = [InputRecord(10 + i, value, **{"key": b"k%d" % i, **record}) for i, value in enumerate(values)]
        compiled = self.compiled.mask("t", 1, records, statistics_version=3)
        (batch, keys), *_ = self.bench.mechanism.seen[-1:] or [(None, None)]
        literal = self.literal.mask("t", 1, records, statistics_version=3)
        assert compiled.outcomes == literal.outcomes
        assert as_plain(compiled.blocks) == as_plain(literal.blocks)
        if len(values) and batch is not None and any(value is not None for value in compiled.values):
            (other, other_keys) = self.bench.mechanism.seen[-1]
            assert as_plain(batch) == as_plain(other)
            assert np.array_equal(keys.digests, other_keys.digests)
        assert as_plain(self.compiled.count(values)) == as_plain(self.literal.count(values))
        return compiled

    def is_scanned(self, value: bytes, **record: Any) -> bool:
        """Whether the scanner decodes a record itself."""
        records = Inputs.of([InputRecord(1, value, None, **record)])
        return not len(self.compiled._codec.scanner.read(records).undecided)


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
