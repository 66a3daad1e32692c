"""The texts of transformed values: what is kept of them is bounded."""

from __future__ import annotations

import orjson
import pytest

from stream_masker.pipeline.codec.scanner import render
from stream_masker.pipeline.transforms import LeadingCharacters, TransformContext


def test_neither_many_texts_nor_long_ones_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer chooses how many different values there are, and how long they are."""
    monkeypatch.setattr(render, "KEPT_TEXTS", 100)
    texts = render._Texts(LeadingCharacters(1000), TransformContext(bytes.hex, bytes))
    for k in range(500):
        value = orjson.dumps(f"{k}" + "x" * (k % 2 * 500))
        assert texts[b"", value] == value
    assert 0 < len(texts) <= 100
    assert max(len(value) for _, value in texts) <= render.KEPT_BYTES
