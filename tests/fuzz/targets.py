"""The targets of the fuzzer: records and plans, masked by the codec and compared with its literal twin."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.documents import encoded
from support.plans import documents, plans

from stream_masker.errors import ConfigurationError
from tests.fuzz.records import GOOD, PLANS
from tests.pipeline.conftest import Bench
from tests.pipeline.twin import check_record

CORPUS = Path(__file__).parent / "corpus"
"""Inputs of ``compare_record``: the number of a plan in one byte, and a record."""


@cache
def _benches() -> list[Bench]:
    return [Bench(attributes, **more) for attributes, more in PLANS.values()]


def compare_record(data: bytes) -> None:
    """Mask one record. data: the number of the plan in one byte, and the record."""
    if data:
        check_record(_benches()[data[0] % len(PLANS)], data[1:])


@settings(max_examples=1_000_000, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(plan=plans(), data=st.data())
def compare_plan(plan: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject) -> None:
    """Mask documents that match the paths of any plan."""
    attributes, more = plan
    try:
        bench = Bench(attributes, **more)
    except ConfigurationError:
        return
    for value in data.draw(st.lists(documents(bench.plan).flatmap(encoded), min_size=1, max_size=3)):
        check_record(bench, value)


def seeds() -> dict[str, bytes]:
    """The committed corpus: each plan's record, compact and with white space, and the unusual parts of JSON."""
    found = {}
    for number, name in enumerate(PLANS):
        first = bytes([number])
        found[f"{name}-compact"] = first + orjson.dumps(GOOD[name])
        found[f"{name}-spaced"] = first + json.dumps(GOOD[name], indent=1).encode()
        found[f"{name}-unusual"] = first + orjson.dumps(GOOD[name]).replace(b":1", b":-0.0e1").replace(b"a", b"\\u0061")
    return found
