"""The texts that fill the placeholders of attributes: masked codes, and their labels and copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stream_masker.core.batch import MaskedBatch
from stream_masker.core.dtypes import Int64Array
from stream_masker.pipeline.codec.attributes import (
    LABEL_PLACEHOLDER,
    PLACEHOLDER_KIND,
    PLACEHOLDER_SHIFT,
    STYLE,
    AttributeCodec,
)
from stream_masker.pipeline.codec.columns import ExtractedColumn, completed_styles, masked_positions
from stream_masker.pipeline.codec.numbers import NULL_JSON
from stream_masker.pipeline.style import STYLE_BITS


def placeholder_texts(
    placeholders: Sequence[int],
    attributes: Sequence[AttributeCodec],
    columns: Sequence[ExtractedColumn],
    masked: MaskedBatch,
) -> list[bytes]:
    """The text of each placeholder, as JSON; null for those of numbers."""
    texts = [NULL_JSON] * len(placeholders)
    owners, kinds = np.divmod(np.array(placeholders, dtype=np.int64), 1 << PLACEHOLDER_SHIFT)
    values, owners = np.divmod(owners, attributes[0].total)
    styles = completed_styles(attributes, columns)
    for attribute, extracted, column, style in zip(attributes, columns, masked.columns, styles, strict=True):
        own = np.flatnonzero(owners == attribute.number)
        kind, value = kinds[own], values[own]
        shown = np.where(kind & PLACEHOLDER_KIND, kind & STYLE, style[value])
        keys = masked_positions(extracted, column)[value] << STYLE_BITS | shown
        is_label = kind & LABEL_PLACEHOLDER > 0
        _fill(texts, attribute.labels, own[is_label], keys[is_label])
        _fill(texts, attribute.codes, own[~is_label], keys[~is_label])
    return texts


def _fill(texts: list[bytes], written: Mapping[int, bytes], placeholders: Int64Array, keys: Int64Array) -> None:
    for placeholder, key in zip(placeholders.tolist(), keys.tolist(), strict=True):
        texts[placeholder] = written[key]
