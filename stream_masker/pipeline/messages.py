"""The messages of the service: calibration blocks, statistics versions, drift reports and rejections, all JSON.

A block names concepts by their positions in the taxonomies, whose fingerprints it carries: a reader with another build
of an ontology refuses it. Messages are authentic (``seal``), so only what a reader relies on is checked. Errors never
contain a field's value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, fields
from itertools import combinations
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import numpy as np
import orjson

from stream_masker.core.batch import Distortion
from stream_masker.core.context import NO_CONTEXT, Context
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.blocks import MAX_COUNTED_ELEMENTS
from stream_masker.pipeline.records import Block, Rejected
from stream_masker.pipeline.style import STYLES, Style, StyleCounts

Taxonomies: TypeAlias = Mapping[str, Taxonomy]
JsonObject: TypeAlias = dict[str, Any]

MESSAGE_FORMAT: Final = 1
"""The format of all JSON messages of stream-masker. Readers refuse any other."""

MAX_COUNT: Final = 1 << 40
"""The greatest number in a block. The sum over a window of millions of blocks fits into 64 bits."""

KEYED: Final = ("pairs", "lengths", "events", "lacking")
"""The fields of ``Counts`` that map positions of attributes to counts; as texts, positions are separated by commas."""

StatisticsSource: TypeAlias = Literal["bootstrap", "blocks", "file"]


def fingerprints(taxonomies: Taxonomies) -> dict[str, str]:
    """Return the fingerprint of each attribute's taxonomy, by which readers check that it is theirs."""
    return {name: taxonomy.fingerprint for name, taxonomy in taxonomies.items()}


def block_key(block: Block) -> bytes:
    """Return the key of a block's message: ``topic:partition:first_offset``."""
    return f"{block.topic}:{block.partition}:{block.first_offset}".encode()


def encode_block(block: Block, taxonomies: Taxonomies, context: Context = NO_CONTEXT) -> bytes:
    """Return a calibration block as JSON; ``context``: that of the records.

    The attributes are those of ``taxonomies``, in that order. A pair's key is ``position of the first * size of the
    second's taxonomy + position of the second``.
    """
    own = {"taxonomies": fingerprints(taxonomies), "context": context.fingerprint}
    return _dumps(block, original=_counts(block.original), masked=_counts(block.masked), **own)


def _counts(counts: Counts) -> JsonObject:
    """Return the fields of counts, with the keys of mappings as texts."""
    message = _fields(counts) | {"contexts": {str(number): _counts(part) for number, part in counts.contexts.items()}}
    for name in KEYED:
        message[name] = {",".join(map(str, _positions(key))): each for key, each in message[name].items()}
    return message


def _positions(key: int | tuple[int, ...]) -> tuple[int, ...]:
    return key if isinstance(key, tuple) else (key,)


def decode_block(raw: bytes, taxonomies: Taxonomies, context: Context = NO_CONTEXT) -> Block:
    """Decode what ``encode_block`` returns.

    Raises StatisticsError unless the message is a block over these taxonomies and this context, with
    counts in their bounds.
    """
    sizes = [len(taxonomy) for taxonomy in taxonomies.values()]
    with _decoding("block"):
        data = _object(raw)
        _require(data.pop("taxonomies") == fingerprints(taxonomies), "taxonomies")
        _require(data.pop("context") == context.fingerprint, "context")
        records = data["last_offset"] - data["first_offset"] + 1
        _require(0 <= data["first_offset"] <= data["last_offset"] and 0 <= data["unchanged"] <= records, "last_offset")
        for side in ("original", "masked"):
            data[side] = _read_counts(data[side], sizes, records)
        _require(set(data["original"].contexts) <= set(range(context.size if context else 0)), "contexts")
        data["distortions"] = tuple(Distortion(**each) for each in data["distortions"])
        data["styles"] = tuple(StyleCounts(tuple(each["texts"])) for each in data["styles"])
        block = Block(**data)
        _require(len(block.distortions) == len(sizes) and len(block.styles) in (0, len(sizes)), "distortions")
        distortions = (number for each in block.distortions for number in astuple(each))
        _require_counts(block.partition, *block.rejected.values(), *distortions)
    return block


def _read_counts(data: JsonObject, sizes: Sequence[int], records: int) -> Counts:
    """Return counts of at most ``records`` records. ``sizes``: of the taxonomies."""
    p = len(sizes)
    singles, pairs = [(j,) for j in range(p)], list(combinations(range(p), 2))
    cells = {key: math.prod(sizes[j] for j in key) for key in (*singles, *pairs)}
    bounds: dict[str, Callable[[int], int]] = {
        "lengths": lambda _: MAX_COUNTED_ELEMENTS + 1,
        "lacking": lambda size: size << p,
    }
    found = {name: {tuple(map(int, key.split(","))): each for key, each in data[name].items()} for name in KEYED}
    found["values"] = dict(zip(singles, data["values"], strict=True))
    read = {
        name: {key: _read_sparse(each, bounds.get(name, int)(cells[key])) for key, each in part.items()}
        for name, part in found.items()
    }
    _require(list(read["pairs"]) == pairs, "pairs")
    _require(0 <= data["records"] <= records, "records")
    _require(len(data["given"]) == len(data["unknown"]) == p, "given")
    _require_counts(*data["given"], *data["unknown"])
    return Counts(
        records=data["records"],
        values=tuple(read["values"].values()),
        pairs=cast(Any, read["pairs"]),
        given=tuple(data["given"]),
        unknown=tuple(data["unknown"]),
        lengths={j: each for (j,), each in read["lengths"].items()},
        events=read["events"],
        lacking=read["lacking"],
        contexts={int(number): _read_counts(part, sizes, records) for number, part in data["contexts"].items()},
    )


def _read_sparse(data: JsonObject, size: int) -> SparseCounts:
    """Return counts of keys below ``size``, which ascend."""
    _require(not set(map(type, (*data["keys"], *data["counts"]))) - {int}, "counts")
    keys, counts = np.array(data["keys"], np.int64), np.array(data["counts"], np.int64)
    bits = None if data["key_bits"] is None else np.array(data["key_bits"], np.uint64)
    is_ascending = bool((keys[1:] > keys[:-1]).all()) and (not keys.size or 0 <= keys[0] <= keys[-1] < size)
    _require(is_ascending and len(counts) == len(keys), "keys")
    _require(not counts.size or (counts.min() >= 1 and counts.max() <= MAX_COUNT), "counts")
    _require(bits is None or len(bits) == len(keys), "key_bits")
    return SparseCounts(keys, counts, bits)


def _require_counts(*numbers: float) -> None:
    _require(all(0 <= number <= MAX_COUNT for number in numbers), "count")


@dataclass(frozen=True, slots=True)
class BlockRange:
    """A range of offsets on the calibration topic, ``first`` to ``last``, with ``count`` blocks in the window."""

    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class StatisticsMessage:
    """A published statistics version.

    published: milliseconds since the epoch; blocks: the blocks that it was computed from, None for a bootstrap sample
    or a file; taxonomies: each attribute's fingerprint; baseline: the version that drift is measured against; snapshot:
    of the mechanism, for ``Mechanism.restore``; styles: the learned styles of attributes, from which a reader's
    configured ones may differ; secret_id: of the masking secret that workers must have, None if it is not known;
    guessed: the chance of the best guess of a code, by mechanism (``guess_chances``), None if it is not known yet.
    """

    version: int
    mechanism: str
    configuration: str
    published: int
    source: StatisticsSource
    blocks: BlockRange | None
    taxonomies: Mapping[str, str]
    baseline: int
    snapshot: Mapping[str, Any]
    styles: Mapping[str, Style] = field(default_factory=dict)
    secret_id: str | None = None
    guessed: Mapping[str, float] | None = None

    @property
    def key(self) -> bytes:
        """The key of the message: the version in decimal."""
        return str(self.version).encode()

    @property
    def statistics(self) -> Statistics:
        """The statistics in the snapshot. Raises StatisticsError unless they are of this version."""
        statistics = Statistics.from_dict(self.snapshot.get("statistics", {}))
        if statistics.version != self.version:
            raise StatisticsError("statistics: the snapshot is of another version than its message")
        return statistics

    def fits(self, mechanism: str, taxonomies: Taxonomies) -> bool:
        """Return whether a mechanism of this name can use the statistics with these taxonomies."""
        return self.mechanism == mechanism and dict(self.taxonomies) == fingerprints(taxonomies)


def encode_statistics(message: StatisticsMessage) -> bytes:
    """Return a statistics version as JSON. Floats keep all their bits."""
    return _dumps(message)


def decode_statistics(raw: bytes) -> StatisticsMessage:
    """Decode what ``encode_statistics`` returns. Raises StatisticsError for anything else."""
    with _decoding("statistics"):
        data = _object(raw)
        data["blocks"] = blocks = None if data["blocks"] is None else BlockRange(**data["blocks"])
        data["styles"] = styles = {name: Style(**style) for name, style in data["styles"].items()}
        _require(set(styles.values()) <= set(STYLES), "styles")
        _require(blocks is None or 0 <= blocks.first <= blocks.last, "blocks")
        _require(data["version"] >= 1 and data["baseline"] >= 1 and data["published"] >= 0, "version")
        _require(data["source"] in get_args(StatisticsSource), "source")
        _require(isinstance(data["snapshot"], dict), "snapshot")
        return StatisticsMessage(**data)


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The drift of a statistics version since the previous version and since the baseline; None if there is none.

    utility: the measures of 2017, section 5, for the masked side of the window; None for a window without masked
    records (a bootstrap sample or a file). window: the number of its ``records`` and ``blocks``.
    """

    version: int
    published: int
    previous: Mapping[str, Any] | None
    baseline: Mapping[str, Any] | None
    utility: Mapping[str, Any] | None
    window: Mapping[str, int]


def encode_drift(report: DriftReport) -> bytes:
    """Return a drift report as JSON."""
    return _dumps(report)


def decode_drift(raw: bytes) -> DriftReport:
    """Decode what ``encode_drift`` returns. Raises StatisticsError for anything else."""
    with _decoding("drift report"):
        data = _object(raw)
        _require(data["version"] >= 1 and data["published"] >= 0, "version")
        return DriftReport(**data)


def encode_rejection(rejected: Rejected, *, topic: str, partition: int) -> bytes:
    """Return a rejection as JSON: reason and place, never a value. It has a ``field`` only if a field is the cause."""
    place = {"reason": rejected.reason, "topic": topic, "partition": partition, "offset": rejected.offset}
    blamed = {} if rejected.field is None else {"field": rejected.field}
    return orjson.dumps({"format": MESSAGE_FORMAT, **place, **blamed})


def decode_rejection(raw: bytes) -> tuple[str, int, Rejected]:
    """Return (topic, partition, rejection). Raises StatisticsError for anything else."""
    with _decoding("rejection"):
        data = _object(raw)
        _require(isinstance(data["offset"], int) and isinstance(data["reason"], str), "offset")
        return data["topic"], data["partition"], Rejected(data["offset"], data["reason"], data.get("field"))


def _fields(message: Any) -> JsonObject:
    return {each.name: getattr(message, each.name) for each in fields(message)}


def _dumps(message: Any, **changed: Any) -> bytes:
    """Return the fields of a message as JSON, and those that are changed or added."""
    return orjson.dumps({"format": MESSAGE_FORMAT, **_fields(message), **changed}, option=orjson.OPT_SERIALIZE_NUMPY)


def _object(raw: bytes) -> JsonObject:
    """Return the fields of a message of this format."""
    data = orjson.loads(raw)
    _require(isinstance(data, dict) and data.pop("format", None) == MESSAGE_FORMAT, "format")
    return cast(JsonObject, data)


def _require(is_valid: bool, field: str) -> None:
    if not is_valid:
        raise StatisticsError(f"{field} is missing, invalid or not the configured one")


@contextmanager
def _decoding(what: str) -> Iterator[None]:
    """Raise StatisticsError if the block fails. Its text never has a value of the message."""
    try:
        yield
    except StatisticsError as error:
        raise StatisticsError(f"{what}: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise StatisticsError(f"{what}: not a message of this format ({type(error).__name__})") from None
