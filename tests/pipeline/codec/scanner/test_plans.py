"""The scanner gives the same results as the reference codec, for any plan that can be compiled."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.codecs import SECRET, as_plain
from support.documents import encoded
from support.plans import documents, plans

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import InputRecord, Inputs


@pytest.mark.exhaustive
def test_any_plan_gives_the_same_results(bench, caplog):
    caplog.set_level(logging.ERROR)
    scanned: list[int] = []

    @settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
    @given(plan=plans(), data=st.data())
    def check(plan: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject) -> None:
        on_bench = compiled_bench(bench, *plan)
        assume(on_bench is not None)
        values = data.draw(st.lists(documents(on_bench.plan).flatmap(encoded), min_size=3, max_size=8))
        scanned.append(check_equal(on_bench, values))

    check()
    assert sum(scanned) > len(scanned)


def compiled_bench(bench: Any, attributes: dict[str, Any], more: dict[str, Any]) -> Any | None:
    """A bench for a plan; None if the plan is not valid, or cannot be compiled."""
    try:
        on_bench = bench(attributes, **more)
    except ConfigurationError:
        return None
    return on_bench if on_bench.masker.is_compiled else None


def check_equal(on_bench: Any, values: list[bytes]) -> int:
    """Asserts that both codecs give the same results; returns how many records the scanner decodes."""
    literal = RecordMasker(on_bench.plan, on_bench.mechanism, SECRET, compiled=False)
    records = [InputRecord(i, value) for i, value in enumerate(values)]
    compiled, reference = (m.mask("t", 1, records, statistics_version=3) for m in (on_bench.masker, literal))
    assert compiled.outcomes == reference.outcomes
    assert as_plain(compiled.blocks) == as_plain(reference.blocks)
    return len(on_bench.masker._codec.scanner.read(Inputs.of(records)).indices)
