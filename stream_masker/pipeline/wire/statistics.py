"""The JSON of statistics versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args

import orjson

from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.blocks import Sampling
from stream_masker.pipeline.style import STYLE_CHOICES, Style
from stream_masker.pipeline.wire.fields import (
    MESSAGE_FORMAT,
    MessageReader,
    Taxonomies,
    read_sampling,
    sampling_section,
)

StatisticsSource: TypeAlias = Literal["bootstrap", "blocks", "file"]


@dataclass(frozen=True, slots=True)
class BlockRange:
    """A range of offsets on the calibration topic, ``first`` to ``last``, with ``count`` blocks in the window.

    level: if the window is a sample, that of its records; the strata below are left out. None if all are counted.
    """

    first: int
    last: int
    count: int
    level: int | None = None


@dataclass(frozen=True, slots=True)
class StatisticsMessage:
    """A published statistics version.

    published: milliseconds since the epoch; blocks: the blocks that it was computed from, None for a bootstrap sample
    or a file; taxonomies: each attribute's fingerprint; baseline: the version that drift is measured against; snapshot:
    of the mechanism, for ``Mechanism.restore``; settings: the mutable part of the configuration with the hash
    ``configuration``, valid from this version on, None if each reader keeps its own; styles: the learned styles of
    attributes, from which a reader's configured ones may differ; sampling: which records are counted from now on, and
    the errors of this version, None if all records are counted; secret_id: of the masking secret that workers
    must have, None if it is not known yet, or for a file; shared: of each field that is generalized by the counts of
    the window, by path, the concepts that enough records share.
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
    settings: Mapping[str, Any] | None = None
    styles: Mapping[str, Style] = field(default_factory=dict)
    sampling: Sampling | None = None
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


def fingerprints(taxonomies: Taxonomies) -> dict[str, str]:
    """Return the fingerprint of each attribute's taxonomy, by which readers check that it is theirs."""
    return {name: taxonomy.fingerprint for name, taxonomy in taxonomies.items()}


def encode_statistics(message: StatisticsMessage) -> bytes:
    """Return a statistics version as JSON. Floats keep all their bits."""
    blocks = message.blocks
    fields = {
        "format": MESSAGE_FORMAT,
        "version": message.version,
        "mechanism": message.mechanism,
        "configuration": message.configuration,
        "published": message.published,
        "source": message.source,
        "blocks": None if blocks is None else {k: v for k, v in asdict(blocks).items() if v is not None},
        "taxonomies": dict(message.taxonomies),
        "baseline": message.baseline,
        "snapshot": dict(message.snapshot),
        **({} if message.settings is None else {"settings": dict(message.settings)}),
        **({"styles": {name: asdict(style) for name, style in message.styles.items()}} if message.styles else {}),
        **sampling_section(message.sampling),
        **({} if message.secret_id is None else {"secret_id": message.secret_id}),
    }
    return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)


def decode_statistics(raw: bytes) -> StatisticsMessage:
    """Decode what ``encode_statistics`` returns. Raises StatisticsError with the name of an invalid field."""
    reader = MessageReader.of(raw, "statistics")
    blocks, settings, styles = reader.optional("blocks"), reader.optional("settings"), reader.optional("styles")
    return StatisticsMessage(
        version=reader.integer("version", least=1),
        mechanism=reader.text("mechanism"),
        configuration=reader.text("configuration"),
        published=reader.integer("published"),
        source=cast(StatisticsSource, reader.choice("source", get_args(StatisticsSource))),
        blocks=None if blocks is None else _range(blocks),
        taxonomies=reader.texts_by_name("taxonomies"),
        baseline=reader.integer("baseline", least=1),
        snapshot=reader.child("snapshot").data,
        settings=None if settings is None else settings.data,
        styles={} if styles is None else {name: _style(styles.child(name)) for name in styles.data},
        sampling=read_sampling(reader),
        secret_id=reader.optional_text("secret_id"),
    )


def _style(reader: MessageReader) -> Style:
    parts: dict[str, Any] = {name: reader.choice(name, allowed) for name, allowed in STYLE_CHOICES.items()}
    return Style(**parts)


def _range(blocks: MessageReader) -> BlockRange:
    first = blocks.integer("first")
    level = None if blocks.get("level") is None else blocks.integer("level")
    return BlockRange(first, blocks.integer("last", least=first), blocks.integer("count", least=1), level)
