"""The messages of the service: calibration blocks, statistics versions, drift reports and rejections, all JSON.

A block names concepts by their positions in the taxonomies, whose fingerprints it carries: a reader with another build
of an ontology refuses it. Errors name the field and what is allowed, never a field's value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import combinations
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import orjson

from stream_masker.core.batch import Distortion
from stream_masker.core.context import NO_CONTEXT, Context
from stream_masker.core.numeric import Moments
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.blocks import MAX_COUNTED_ELEMENTS
from stream_masker.pipeline.message_reader import MAX_COUNT, MESSAGE_FORMAT, MessageReader
from stream_masker.pipeline.records import Block, Rejected
from stream_masker.pipeline.style import STYLE_CHOICES, Style, StyleCounts

Taxonomies: TypeAlias = Mapping[str, Taxonomy]
JsonObject: TypeAlias = dict[str, Any]

StatisticsSource: TypeAlias = Literal["bootstrap", "blocks", "file"]


def fingerprints(taxonomies: Taxonomies) -> dict[str, str]:
    """Return the fingerprint of each attribute's taxonomy, by which readers check that it is theirs."""
    return {name: taxonomy.fingerprint for name, taxonomy in taxonomies.items()}


def block_key(block: Block) -> bytes:
    """Return the key of a block's message: ``topic:partition:first_offset``."""
    return f"{block.topic}:{block.partition}:{block.first_offset}".encode()


def encode_block(
    block: Block, taxonomies: Taxonomies, *, configuration: str, numeric: Sequence[str] = (), context: str = ""
) -> bytes:
    """Return a calibration block as JSON.

    configuration: the hash of the configuration under which the records were masked; numeric: the names of the numeric
    attributes; context: the fingerprint of the context, empty if there is none. The attributes are those of
    ``taxonomies``, in that order. A pair's key is ``position of the first * size of the second's taxonomy + position of
    the second``.
    """
    return _dumps(
        {
            "topic": block.topic,
            "partition": block.partition,
            "first_offset": block.first_offset,
            "last_offset": block.last_offset,
            "timestamp": block.timestamp,
            "statistics_version": block.statistics_version,
            "configuration": configuration,
            "secret_id": block.secret_id,
            "taxonomies": fingerprints(taxonomies),
            "numeric": list(numeric),
            "context": context,
            "rejected": dict(block.rejected),
            "unchanged": block.unchanged,
            "distortions": [asdict(distortion) for distortion in block.distortions],
            "styles": [asdict(style) for style in block.styles],
            "original": _counts(block.original),
            "masked": _counts(block.masked),
        }
    )


def _counts(counts: Counts) -> JsonObject:
    return {
        "records": counts.records,
        "given": counts.given,
        "unknown": counts.unknown,
        "values": list(map(_sparse, counts.values)),
        "pairs": {f"{i},{j}": _sparse(pair) for (i, j), pair in counts.pairs.items()},
        "lengths": {str(j): _sparse(lengths) for j, lengths in counts.lengths.items()},
        "events": {",".join(map(str, js)): _sparse(events) for js, events in counts.events.items()},
        "lacking": {",".join(map(str, js)): _sparse(lacking) for js, lacking in counts.lacking.items()},
        "contexts": {str(number): _counts(part) for number, part in counts.contexts.items()},
        "moments": None if counts.numeric is None else counts.numeric.to_dict(),
    }


def _sparse(counts: SparseCounts) -> JsonObject:
    bits = {} if counts.key_bits is None else {"bits": counts.key_bits}
    return {"keys": counts.keys, "counts": counts.counts, **bits}


def decode_block(
    raw: bytes, taxonomies: Taxonomies, numeric: Sequence[str] = (), context: Context = NO_CONTEXT
) -> Block:
    """Decode what ``encode_block`` returns; ``context``: that of the records.

    Raises StatisticsError, with the name of the field, unless the message is a block of this format over these
    taxonomies, numeric attributes and context, with counts in their bounds.
    """
    reader = MessageReader.of(raw, "block")
    if reader.texts_by_name("taxonomies") != fingerprints(taxonomies):
        reader.fail("taxonomies", "the configured ones")
    if reader.data.get("numeric") != list(numeric):
        reader.fail("numeric", "the names of the configured numeric attributes")
    if reader.text("context") != (context.fingerprint if context else ""):
        reader.fail("context", "the configured one")
    sizes, first = [len(taxonomy) for taxonomy in taxonomies.values()], reader.integer("first_offset")
    last = reader.integer("last_offset", least=first)
    original, masked = (
        _read_counts(reader.child(side), sizes, last - first + 1, len(numeric), context.size if context else 0)
        for side in ("original", "masked")
    )
    return Block(
        topic=reader.text("topic"),
        partition=reader.integer("partition"),
        first_offset=first,
        last_offset=last,
        timestamp=reader.integer("timestamp", least=-1),
        statistics_version=reader.integer("statistics_version"),
        original=original,
        masked=masked,
        distortions=tuple(map(_read_distortion, _children(reader, "distortions", (len(sizes),)))),
        rejected=reader.by_name("rejected"),
        unchanged=reader.integer("unchanged", most=original.records),
        styles=tuple(map(_read_styles, _children(reader, "styles", (0, len(sizes))))),
        secret_id=reader.optional_text("secret_id"),
    )


def _read_counts(reader: MessageReader, sizes: Sequence[int], records: int, moments: int, contexts: int) -> Counts:
    """Return counts of at most ``records`` records; ``moments``, ``contexts``: the number of each that may occur."""
    names = {f"{i},{j}": (i, j) for i, j in combinations(range(len(sizes)), 2)}
    bound: dict[tuple[int, ...], int] = {(j,): size for j, size in enumerate(sizes)}
    bound |= {(i, j): sizes[i] * sizes[j] for i, j in names.values()}
    known = {",".join(map(str, js)): js for js in bound}
    pairs = _read_named(reader, "pairs", names, bound)
    if pairs.keys() != set(names.values()):
        reader.fail("pairs", "an object of all pairs of attributes")
    arrays: dict[tuple[int, ...], int] = {(j,): MAX_COUNTED_ELEMENTS + 1 for j in range(len(sizes))}
    lengths = _read_named(reader, "lengths", {str(j): (j,) for j in range(len(sizes))}, arrays)
    parts = reader.child("contexts")
    if not set(parts.data) <= set(map(str, range(contexts))):
        reader.fail("contexts", "counts of the configured contexts")
    return Counts(
        records=reader.integer("records", most=records),
        values=tuple(
            _read_sparse(each, size)
            for each, size in zip(_children(reader, "values", (len(sizes),)), sizes, strict=True)
        ),
        pairs=cast(Any, pairs),
        given=_per_attribute(reader, "given", len(sizes)),
        unknown=_per_attribute(reader, "unknown", len(sizes)),
        numeric=_read_moments(reader, moments),
        lengths={j: counts for (j,), counts in cast(Any, lengths.items())},
        events=_read_named(reader, "events", known, bound),
        lacking=_read_named(reader, "lacking", known, {js: most << len(sizes) for js, most in bound.items()}),
        contexts={int(name): _read_counts(parts.child(name), sizes, records, 0, 0) for name in parts.data},
    )


def _children(reader: MessageReader, key: str, allowed: Sequence[int]) -> list[MessageReader]:
    """Return a list of objects; ``allowed``: its lengths."""
    value = reader.data.get(key)
    if not isinstance(value, list) or len(value) not in allowed:
        reader.fail(key, f"a list of {' or '.join(map(str, allowed))} objects")
    group = MessageReader({str(index): each for index, each in enumerate(value)}, f"{reader.where}{key}.")
    return [group.child(name) for name in group.data]


def _per_attribute(reader: MessageReader, key: str, size: int) -> tuple[int, ...]:
    numbers = reader.integers(key)
    if len(numbers) != size:
        reader.fail(key, "a number for each attribute")
    return tuple(numbers.tolist())


def _read_named(
    reader: MessageReader, key: str, names: Mapping[str, tuple[int, ...]], bounds: Mapping[tuple[int, ...], int]
) -> dict[tuple[int, ...], SparseCounts]:
    group = reader.child(key)
    if not group.data.keys() <= names.keys():
        reader.fail(key, f"an object with names of {', '.join(names)}")
    return {names[name]: _read_sparse(group.child(name), bounds[names[name]]) for name in group.data}


def _read_sparse(reader: MessageReader, size: int) -> SparseCounts:
    """Return counts of keys below ``size``."""
    keys, counts = reader.integers("keys", most=size - 1), reader.integers("counts", least=1)
    if len(keys) != len(counts) or (keys[1:] <= keys[:-1]).any():
        reader.fail("counts", "one for each of the keys, which ascend")
    bits = reader.data.get("bits")
    if bits is None:
        return SparseCounts(keys, counts)
    if not isinstance(bits, list) or len(bits) != len(keys) or not all(type(b) is int and 0 <= b < 2**64 for b in bits):
        reader.fail("bits", "a word for each key")
    return SparseCounts(keys, counts, np.array(bits, np.uint64))


def _read_moments(reader: MessageReader, size: int) -> Moments | None:
    section = reader.optional("moments")
    moments = None if section is None else Moments.from_dict(section.data)
    if (0 if moments is None else moments.attributes) != size:
        reader.fail("moments", "those of the numeric attributes")
    return moments


def _read_distortion(reader: MessageReader) -> Distortion:
    values = reader.integer("values", most=MAX_COUNT)
    numbers = {f.name: reader.integer(f.name, most=values) for f in fields(Distortion) if f.type in ("int", int)}
    squares = {name: reader.number(name) for name in ("squared_distance", "squared_noise")}
    return Distortion(**cast(Any, numbers | squares))


def _read_styles(reader: MessageReader) -> StyleCounts:
    return StyleCounts(**{trait.name: reader.integer(trait.name, most=MAX_COUNT) for trait in fields(StyleCounts)})


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
    configured ones may differ; secret_id: of the masking secret that workers must have, None if it is not known.
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
    return _dumps(
        {
            **{f.name: getattr(message, f.name) for f in fields(message)},
            "blocks": None if message.blocks is None else asdict(message.blocks),
            "styles": {name: asdict(style) for name, style in message.styles.items()},
        }
    )


def decode_statistics(raw: bytes) -> StatisticsMessage:
    """Decode what ``encode_statistics`` returns. Raises StatisticsError with the name of an invalid field."""
    reader = MessageReader.of(raw, "statistics")
    blocks, styles = reader.optional("blocks"), reader.child("styles")
    return StatisticsMessage(
        version=reader.integer("version", least=1),
        mechanism=reader.text("mechanism"),
        configuration=reader.text("configuration"),
        published=reader.integer("published"),
        source=cast(StatisticsSource, reader.choice("source", get_args(StatisticsSource))),
        blocks=None if blocks is None else _read_range(blocks),
        taxonomies=reader.texts_by_name("taxonomies"),
        baseline=reader.integer("baseline", least=1),
        snapshot=reader.child("snapshot").data,
        styles={name: _read_style(styles.child(name)) for name in styles.data},
        secret_id=reader.optional_text("secret_id"),
    )


def _read_style(reader: MessageReader) -> Style:
    return Style(**cast(Any, {name: reader.choice(name, allowed) for name, allowed in STYLE_CHOICES.items()}))


def _read_range(blocks: MessageReader) -> BlockRange:
    first = blocks.integer("first")
    return BlockRange(first, blocks.integer("last", least=first), blocks.integer("count", least=1))


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The drift of a statistics version since the previous version and since the baseline; None if there is none.

    utility: the measures of 2017, section 5, for the masked side of the window; None for a window without masked
    records (a bootstrap sample or a file). records, blocks: the window's size.
    """

    version: int
    published: int
    previous: Mapping[str, Any] | None
    baseline: Mapping[str, Any] | None
    utility: Mapping[str, Any] | None
    records: int
    blocks: int

    @property
    def key(self) -> bytes:
        """The key of the message: the version in decimal."""
        return str(self.version).encode()


def encode_drift(report: DriftReport) -> bytes:
    """Return a drift report as JSON."""
    parts = {name: getattr(report, name) for name in ("version", "published", "previous", "baseline", "utility")}
    return _dumps({**parts, "window": {"records": report.records, "blocks": report.blocks}})


def decode_drift(raw: bytes) -> DriftReport:
    """Decode what ``encode_drift`` returns. Raises StatisticsError with the name of an invalid field."""
    reader = MessageReader.of(raw, "drift report")
    parts, window = {k: reader.optional(k) for k in ("previous", "baseline", "utility")}, reader.child("window")
    return DriftReport(
        version=reader.integer("version", least=1),
        published=reader.integer("published"),
        records=window.integer("records"),
        blocks=window.integer("blocks"),
        **{key: None if part is None else part.data for key, part in parts.items()},
    )


def encode_rejection(rejected: Rejected, *, topic: str, partition: int) -> bytes:
    """Return a rejection as JSON: reason and place, never a value. It has a ``field`` only if a field is the cause."""
    place = {"reason": rejected.reason, "topic": topic, "partition": partition, "offset": rejected.offset}
    return _dumps(place if rejected.field is None else {**place, "field": rejected.field})


def decode_rejection(raw: bytes) -> tuple[str, int, Rejected]:
    """Return (topic, partition, rejection). Raises StatisticsError with the name of an invalid field."""
    reader = MessageReader.of(raw, "rejection")
    rejected = Rejected(
        offset=reader.integer("offset"), reason=reader.text("reason"), field=reader.optional_text("field")
    )
    return reader.text("topic"), reader.integer("partition"), rejected


def _dumps(message: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"format": MESSAGE_FORMAT, **message}, option=orjson.OPT_SERIALIZE_NUMPY)
