"""The corpus of the fuzzer: records that reached new code in a long run."""

from __future__ import annotations

from tests.fuzz.targets import CORPUS, compare_record, seeds


def test_every_record_of_the_corpus_is_masked_as_by_the_twin():
    inputs = [*seeds().values(), *(path.read_bytes() for path in sorted(CORPUS.iterdir()))]
    assert len(inputs) > 300
    for data in inputs:
        compare_record(data)
