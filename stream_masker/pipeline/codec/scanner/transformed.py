"""Transformed values as texts. Python computes each text once, when its value occurs for the first time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import orjson

from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.pipeline.codec.scanner.buffers import (
    FIRST_TRANSFORM_KIND,
    ScanBuffers,
    slices_of,
    transformed_places,
)
from stream_masker.pipeline.transforms import DROPPED, FieldTransform, TransformContext

KEPT_TEXTS: Final = 1 << 14
"""The maximum number of texts that are kept for each transform: about 8 MB."""

KEPT_BYTES: Final = 128
"""The maximum size of a value, with the record's key, whose text is kept."""


class _Texts(dict[tuple[bytes, bytes], bytes | None]):
    """The text of each transformed value, by the record's key and the value's text; None for a value that is dropped.

    The key is empty if the transform needs none. Long values are not kept, so that a producer cannot fill the memory.
    """

    def __init__(self, transform: FieldTransform, context: TransformContext) -> None:
        super().__init__()
        self.has_key: Final = transform.key is not None
        self._transform = transform.prepared()
        self._context = context

    def __missing__(self, case: tuple[bytes, bytes]) -> bytes | None:
        key, text = case
        if self._transform.key is not None:
            self._context.keys = {self._transform.key: key}
        treated = self._transform.of_value(orjson.loads(text), self._context)
        result = None if treated is DROPPED else orjson.dumps(treated)
        if len(key) + len(text) <= KEPT_BYTES:
            if len(self) >= KEPT_TEXTS:
                self.clear()
            self[case] = result
        return result


class TransformedTexts:
    """The texts of the values that transforms replace, in the order of their placeholders."""

    def __init__(self, transforms: Sequence[FieldTransform], context: TransformContext) -> None:
        self._context = context
        self._texts = [_Texts(transform, context) for transform in transforms]

    def set_shared(self, shared: Mapping[str, Int32Array]) -> None:
        """Set what each concept becomes; see ``RecordCodec``."""
        self._context.shared = shared
        for texts in self._texts:
            texts.clear()

    def of_batch(
        self, data: bytes, buffers: ScanBuffers, keys: Sequence[bytes]
    ) -> tuple[Sequence[bytes | None], Int64Array]:
        """Return the text of each transformed value, and the decoded record that it belongs to, (m,) int64.

        data: the input; keys: the noise key of each decoded record, empty if there are none.
        """
        if not self._texts:
            return [], np.empty(0, np.int64)
        kinds, starts = slices_of(buffers.placeholder_uses[: buffers.placeholders])
        places = transformed_places(kinds)
        records = np.searchsorted(buffers.ends[: buffers.decoded + 1, 1], places, side="right") - 1
        numbers, starts = kinds[places] - FIRST_TRANSFORM_KIND, starts[places]
        ends = starts + buffers.placeholder_sizes[places]
        columns = (numbers.tolist(), records.tolist(), starts.tolist(), ends.tolist())
        texts = []
        for number, record, start, end in zip(*columns, strict=True):
            of_transform = self._texts[number]
            key = keys[record] if of_transform.has_key else b""
            texts.append(of_transform[key, data[start:end]])
        return texts, records
