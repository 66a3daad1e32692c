"""Records accept and reject the cases of JSONTestSuite as RFC 8259 says."""

from __future__ import annotations

import gzip
import json

import pytest
from support.data import data_file
from support.results import Masked

with gzip.open(data_file("json-test-suite.json.gz"), "rt") as file:
    CASES = {name: text.encode("latin-1") for name, text in json.load(file).items()}
"""Decoders must accept those whose name begins with ``y_`` and reject those with ``n_``; ``i_`` are undefined."""


@pytest.fixture(scope="module")
def on_bench(bench):
    return bench({"a": {"path": "code"}}, unlisted="drop", fields={"keep": ["kept"]})


@pytest.mark.parametrize("place", ["kept", "dropped"])
def test_a_record_with_a_case_is_masked_exactly_if_the_case_is_valid(on_bench, place):
    names = list(CASES)
    outcomes = on_bench.mask(*[b'{"code":"I10","%b":%b}' % (place.encode(), CASES[name]) for name in names])
    masked = {name for name, outcome in zip(names, outcomes, strict=True) if isinstance(outcome, Masked)}
    assert {name for name in names if name.startswith("y_")} <= masked
    assert {name for name in masked if name.startswith("n_")} == set()


def test_a_case_as_the_whole_record_is_never_masked(on_bench):
    """None of them has the code of the attribute."""
    outcomes = on_bench.mask(*CASES.values())
    assert not any(isinstance(outcome, Masked) for outcome in outcomes)
