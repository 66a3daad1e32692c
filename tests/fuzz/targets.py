"""The targets of the fuzzer: comparisons of the scanner's kernels, as Python, with the reference codec.

Import ``checked_kernels`` first: it disables the compiler and makes every access beyond an array an IndexError.
"""

from __future__ import annotations

import json
import logging
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.codecs import SECRET, CodecPair, as_plain
from support.documents import encoded
from support.plans import documents, plans
from tests.pipeline.codec.scanner.test_codec import GOOD, PLANS

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import InputRecord
from tests.pipeline.conftest import Bench

CORPUS = Path(__file__).parent / "corpus"
"""Inputs of ``compare_record``: the number of a plan in one byte, and a record."""


@cache
def _pairs() -> list[CodecPair]:
    logging.disable(logging.CRITICAL)
    return [CodecPair(Bench, attributes, **more) for attributes, more in PLANS.values()]


def compare_record(data: bytes) -> None:
    """Mask one record by both codecs. data: the number of the plan in one byte, and the record."""
    if data:
        _pairs()[data[0] % len(PLANS)].check([data[1:]])


@settings(max_examples=1_000_000, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(plan=plans(), data=st.data())
def compare_plan(plan: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject) -> None:
    """Mask documents that match the paths of any plan by both codecs."""
    attributes, more = plan
    try:
        bench = Bench(attributes, **more)
    except ConfigurationError:
        return
    literal = RecordMasker(bench.plan, bench.mechanism, SECRET, compiled=False)
    values = data.draw(st.lists(documents(bench.plan).flatmap(encoded), min_size=1, max_size=3))
    records = [InputRecord(i, value) for i, value in enumerate(values)]
    one, other = (masker.mask("t", 1, records, statistics_version=3) for masker in (bench.masker, literal))
    assert one.outcomes == other.outcomes
    assert as_plain(one.blocks) == as_plain(other.blocks)


def seeds() -> dict[str, bytes]:
    """The committed corpus: each plan's record, compact and with white space, and the unusual parts of JSON."""
    found = {}
    for number, name in enumerate(PLANS):
        first = bytes([number])
        found[f"{name}-compact"] = first + orjson.dumps(GOOD[name])
        found[f"{name}-spaced"] = first + json.dumps(GOOD[name], indent=1).encode()
        found[f"{name}-unusual"] = first + orjson.dumps(GOOD[name]).replace(b":1", b":-0.0e1").replace(b"a", b"\\u0061")
    return found
