"""The texts that fill the placeholders of attributes: masked codes, and their labels and copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stream_masker.core.batch import MaskedBatch
from stream_masker.core.dtypes import Int64Array
from stream_masker.pipeline.codec.attributes import LABEL_PLACEHOLDER, PLACEHOLDER_SHIFT, AttributeCodec
from stream_masker.pipeline.codec.columns import ExtractedColumn, masked_positions
from stream_masker.pipeline.codec.numbers import NULL_JSON


def placeholder_texts(
    placeholders: Sequence[int],
    attributes: Sequence[AttributeCodec],
    columns: Sequence[ExtractedColumn],
    masked: MaskedBatch,
) -> list[bytes]:
    """Return the text of each placeholder, as JSON; null for those of numbers."""
    texts = [NULL_JSON] * len(placeholders)
    owners, kinds = np.divmod(np.array(placeholders, dtype=np.int64), 1 << PLACEHOLDER_SHIFT)
    values, owners = np.divmod(owners, attributes[0].total)
    for attribute, extracted, column in zip(attributes, columns, masked.columns, strict=True):
        own = np.flatnonzero(owners == attribute.number)
        positions = masked_positions(extracted, column)[values[own]]
        is_label = kinds[own] == LABEL_PLACEHOLDER
        _fill(texts, attribute.labels, own[is_label], positions[is_label])
        _fill(texts, attribute.codes, own[~is_label], positions[~is_label])
    return texts


def _fill(texts: list[bytes], written: Mapping[int, bytes], placeholders: Int64Array, positions: Int64Array) -> None:
    for placeholder, position in zip(placeholders.tolist(), positions.tolist(), strict=True):
        texts[placeholder] = written[position]
