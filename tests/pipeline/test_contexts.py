"""The context of records, from their bytes to their masks: how it is read, counted and kept."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np
import orjson
import pytest
from support.results import InputRecord, inputs

from stream_masker.core.context import Context
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport
from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.core.statistics.counts import merge
from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import AttributePlan, FieldPolicy, Place, Plan
from stream_masker.pipeline.transforms import NumberBands
from tests.pipeline.conftest import field_policy

SECRET = b"a secret of at least sixteen bytes"
WOMEN, MEN, BOTH = ["w1", "w2", "w3"], ["m1", "m2", "m3"], ["b1", "b2", "b3"]
ONTOLOGY = Ontology.from_edges([(code, code[0]) for code in WOMEN + MEN + BOTH] + [(g, "root") for g in "wmb"])
TAU = ONTOLOGY.taxonomy()
CONTEXT = Context.of({"sex": ["F", "M"], "age": [18, 65]})

policy = partial(field_policy, "drop")


def plan_of(fields: FieldPolicy, context: Context = CONTEXT, code: str = "code") -> Plan:
    concepts = ConceptMap(TAU, unknown="reject")
    attributes = (AttributePlan(name="code", places=(Place(compile_path(code)),), concepts=concepts),)
    kinds = {compile_path(attribute.name): attribute for attribute in context.attributes}
    return Plan(attributes=attributes, fields=fields, configuration="0" * 16, context=kinds)


def transport() -> SemanticTransport:
    kinds = {attribute.name: list(attribute.texts or attribute.bounds) for attribute in CONTEXT.attributes}
    return SemanticTransport({"code": TAU}, context=kinds, seed=SECRET)


@pytest.mark.parametrize(
    ("event", "kept", "in_bands"),
    [
        ({"sex": "F", "age": 17}, 0, 0),
        ({"sex": "M", "age": 18}, 5, 4),
        ({"sex": "f", "age": "65"}, 10, 9),
        ({"age": 1e300}, 10, 10),
        ({"sex": "F", "age": "20-24"}, 1, 3),
        ({"sex": None, "age": True}, 11, 11),
        ({"sex": ["F"], "age": {"years": 40}}, 11, 11),
        ({}, 11, 11),
    ],
)
def test_the_context_of_any_values_is_read(event: dict[str, Any], kept: int, in_bands: int) -> None:
    for fields, expected in (
        (policy(keep=["sex", "age"]), kept),
        (policy({"age": NumberBands(10, 90)}, keep=["sex"]), in_bands),
    ):
        masker = RecordMasker(plan_of(fields), transport(), SECRET)
        (part,) = masker.read([orjson.dumps({**event, "code": "b1"})])
        assert part.batch.context is not None
        assert part.batch.context.tolist() == [expected]


@pytest.mark.parametrize(("path", "said"), [("a[*].x", "has a [*]"), ("b.code", "is masked"), ("b", "is masked")])
def test_a_context_of_several_or_of_masked_values_is_refused(path: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        plan_of(policy(), Context.of({path: ["a"]}), code="b.code")
    assert said in str(raised.value)


def test_a_field_that_is_not_released_tells_masks_nothing() -> None:
    for fields in (policy(), policy(drop=["sex"])):
        masker = RecordMasker(plan_of(fields), transport(), SECRET)
        (part,) = masker.read([b'{"sex":"F","code":"b1"}', b'{"code":"b1"}'])
        assert part.batch.context is not None
        assert len({*part.batch.context.tolist()}) == 1


def events(records: int) -> list[bytes]:
    """Records of women and men with codes of their own; every 40th has no sex, or one that is not listed."""
    generator = np.random.default_rng(7)
    made = []
    for number in range(records):
        sex = ["F", "M"][number % 2]
        code = generator.choice((WOMEN if sex == "F" else MEN) + BOTH)
        shown = {0: {}, 21: {"sex": f"code {number}"}}.get(number % 40, {"sex": sex})
        made.append(orjson.dumps({**shown, "age": int(generator.integers(0, 100)), "code": str(code)}))
    return made


def test_records_are_masked_within_their_context_and_blocks_count_each() -> None:
    """No code of the other sex is written. Records without a listed sex share a law, and are not rejected."""
    values, plan, mechanism = events(2_000), plan_of(policy(keep=["sex", "age"])), transport()
    masker = RecordMasker(plan, mechanism, SECRET)
    counts = masker.count(masker.read(values))
    mechanism = mechanism.with_statistics(mechanism.compute(counts, version=1), counts)
    records = [InputRecord(offset, value) for offset, value in enumerate(values)]
    result = RecordMasker(plan, mechanism, SECRET).mask("t", 0, inputs(records), statistics_version=1)
    assert not result.rejected
    codes = defaultdict[Any, list[str]](list)
    for before, after in zip(map(orjson.loads, values), map(orjson.loads, result.values), strict=True):
        assert before.get("sex") == after.get("sex")
        codes[after.get("sex")].append(after["code"])
    assert sum(orjson.loads(one) != orjson.loads(other) for one, other in zip(values, result.values, strict=True)) > 500
    assert not {*codes.pop("F")} & {*MEN}
    assert not {*codes.pop("M")} & {*WOMEN}
    shared = [code for others in codes.values() for code in others]
    assert len(shared) == len(values) // 20
    assert {*shared} & {*WOMEN}
    assert {*shared} & {*MEN}
    (block,) = result.blocks
    assert not block.masked.contexts, "the masked side has no contexts"
    assert merge(block.original.contexts.values()).values[0].counts.tolist() == block.original.values[0].counts.tolist()
    assert counts.contexts.keys() == block.original.contexts.keys()
