"""Templates: every placeholder is filled, and no other text is a placeholder."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.pipeline.codec.reference.extraction import PLACEHOLDERS, fill_template, split_template


@given(
    before=st.dictionaries(st.text(max_size=5), st.none() | st.text() | st.lists(st.text()), max_size=5),
    texts=st.lists(st.none() | st.text(), min_size=1, max_size=5),
    shuffled=st.randoms(),
)
def test_every_placeholder_gets_its_own_text(before, texts, shuffled):
    numbers = list(range(len(texts)))
    shuffled.shuffle(numbers)
    gapped = {**before, "gaps": [PLACEHOLDERS[number] for number in numbers], "last": 1}
    filled = fill_template(split_template(gapped), [orjson.dumps(text) for text in texts])
    assert orjson.loads(filled) == {**before, "gaps": [texts[number] for number in numbers], "last": 1}


def test_a_text_without_placeholders_is_one_piece():
    assert split_template({"a": "x"}) == [b'{"a":"x"}']
    assert fill_template([b'{"a":"x"}'], []) == b'{"a":"x"}'


@pytest.mark.parametrize("number", [0, 7, 1 << 17, 999_999_999])
def test_a_placeholder_has_one_text(number):
    assert PLACEHOLDERS[number] == PLACEHOLDERS[number]
    assert PLACEHOLDERS[number].endswith(f"{number:09d}")


def test_the_cache_of_placeholder_texts_is_bounded():
    assert PLACEHOLDERS[1 << 20] not in PLACEHOLDERS.values()
    assert PLACEHOLDERS[12] in PLACEHOLDERS.values()
