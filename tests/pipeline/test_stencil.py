"""Texts with gaps: what is cut out comes back filled, and nothing else is a gap."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.pipeline.stencil import GAPS, cut, fill


@given(
    before=st.dictionaries(st.text(max_size=5), st.none() | st.text() | st.lists(st.text()), max_size=5),
    texts=st.lists(st.none() | st.text(), min_size=1, max_size=5),
    shuffled=st.randoms(),
)
def test_every_gap_gets_its_own_text(before, texts, shuffled):
    numbers = list(range(len(texts)))
    shuffled.shuffle(numbers)
    gapped = {**before, "gaps": [GAPS[number] for number in numbers], "last": 1}
    filled = fill(cut(gapped), [orjson.dumps(text) for text in texts])
    assert orjson.loads(filled) == {**before, "gaps": [texts[number] for number in numbers], "last": 1}


def test_a_text_without_gaps_is_one_piece():
    assert cut({"a": "x"}) == [b'{"a":"x"}']
    assert fill([b'{"a":"x"}'], []) == b'{"a":"x"}'


@pytest.mark.parametrize("number", [0, 7, 1 << 17, 999_999_999])
def test_a_gap_has_one_text(number):
    assert GAPS[number] == GAPS[number]
    assert GAPS[number].endswith(f"{number:09d}")


def test_few_of_the_gaps_texts_are_kept():
    assert GAPS[1 << 20] not in GAPS.values()
    assert GAPS[12] in GAPS.values()
