"""Fields that are generalized through an ontology, from the bytes of records to those of a window and back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.context import Context
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport
from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.errors import ConfigurationError, StatisticsError
from stream_masker.pipeline.calibration.window import CalibrationSettings, Window, WindowLog
from stream_masker.pipeline.contexts import context_field
from stream_masker.pipeline.fields import field_treatment
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import AttributePlan, FieldPolicy, Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.records import Block, InputRecord, Result
from stream_masker.pipeline.rollups import LevelAncestor, SharedAncestor, SharedConcepts, shared_of
from stream_masker.pipeline.transforms import FieldTransform
from stream_masker.pipeline.wire.blocks import decode_block, encode_block
from stream_masker.pipeline.wire.consistency import padded_size

SECRET = b"a secret of at least sixteen bytes"
LEAVES = [f"{group}.{leaf}" for group in ("A1", "A2", "B1") for leaf in range(3)]
EDGES = [("A", "root"), ("B", "root"), ("A1", "A"), ("A2", "A"), ("B1", "B"), *((leaf, leaf[:2]) for leaf in LEAVES)]
ONTOLOGY = Ontology.from_edges(EDGES)
TAU = ONTOLOGY.taxonomy()
CODES = ConceptMap(TAU, unknown="suppress", ontology=ONTOLOGY)
LEAST = 4
FIELD = SharedAncestor(compile_path("a.reason"), "small", LEAST, lambda: CODES)
TAXONOMIES = {"code": TAU}


def plan_of(transforms: dict[str, FieldTransform], noise_key: str | None = None) -> Plan:
    treated = {compile_path(path): transform for path, transform in transforms.items()}
    return Plan(
        attributes=(AttributePlan(name="code", path=compile_path("code"), concepts=CODES),),
        fields=FieldPolicy(unlisted="drop", keep=(compile_path("id"),), transforms={"generalize": treated}),
        configuration="0" * 16,
        noise_key=None if noise_key is None else compile_path(noise_key),
    )


@cache
def mechanism() -> SemanticTransport:
    made = SemanticTransport({"code": TAU}, seed=SECRET, least=1, alpha=0.5, certainty=1.0)
    made.learn_many([{"code": leaf} for leaf in LEAVES * 20])
    made.calibrate()
    return made


def masker_of(plan: Plan, **given: Any) -> RecordMasker:
    return RecordMasker(plan, mechanism(), SECRET, **given)


def masked(masker: RecordMasker, events: list[dict[str, Any]], first: int = 0) -> Result:
    records = [
        InputRecord(first + k, orjson.dumps({"code": "A1.0", "id": k, **event})) for k, event in enumerate(events)
    ]
    return masker.mask("t", 0, records, statistics_version=1)


def written(result: Result) -> list[Any]:
    """What is written in place of each record's reason; None if it is removed."""
    return [orjson.loads(value or b"").get("a", {}).get("reason") for value in result.values]


def window_of(blocks: list[Block]) -> Window:
    log = WindowLog(CalibrationSettings(window_records=10_000, min_records=1))
    for offset, block in enumerate(blocks):
        raw = encode_block(block, TAXONOMIES, configuration="0123456789abcdef")
        log.on_block(offset, 0, decode_block(raw, TAXONOMIES, fields={FIELD.counts_key: TAU}))
    window = log.window()
    assert window is not None
    return window


def plain(counts: SparseCounts) -> dict[str, int]:
    return dict(zip(TAU.decode(counts.keys), counts.counts.tolist(), strict=True))


REASON = st.one_of(
    st.sampled_from([*TAU.ids, *(leaf.replace(".", "") for leaf in LEAVES), "a1.0", " B1 ", "", "none", "é", "a\\b"]),
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-3, 3) | st.sampled_from([[], {}, ["A1"]]),
)
EVENTS = st.lists(st.fixed_dictionaries({}, optional={"a": st.fixed_dictionaries({}, optional={"reason": REASON})}))


def concept_of(event: dict[str, Any]) -> str | None:
    value = event.get("a", {}).get("reason")
    value = str(value) if type(value) is int else value
    position = CODES.find(value).position if isinstance(value, str) else -1
    return TAU.ids[position] if position >= 0 else None


@given(events=EVENTS)
def test_both_codecs_count_the_concepts_of_any_values(events: list[dict[str, Any]]) -> None:
    expected = Counter(concept for event in events if (concept := concept_of(event)) is not None)
    values = [orjson.dumps({"code": "A1.0", **event}) for event in events]
    for compiled in (True, False):
        masker = masker_of(plan_of({"a.reason": FIELD}), compiled=compiled)
        counts = masker.count(values).counts
        assert plain(counts.rolled[FIELD.counts_key]) == dict(expected)
        in_blocks = window_of(list(masked(masker, events).blocks)).original if events else counts
        assert plain(in_blocks.rolled[FIELD.counts_key]) == dict(expected)


@given(reasons=st.lists(st.sampled_from([*LEAVES, "A1", "none"]), min_size=1, max_size=60))
def test_nothing_is_written_that_fewer_records_of_the_window_share(reasons: list[str]) -> None:
    masker, events = masker_of(plan_of({"a.reason": FIELD})), [{"a": {"reason": reason}} for reason in reasons]
    before = masked(masker, events)
    assert written(before) == [None] * len(events)
    assert before.emptied == {"a.reason": len(events)}
    shared = shared_of({"a.reason": FIELD}, window_of(list(before.blocks)).original)
    masker.set_shared(shared)
    after = masked(masker, events)
    results = written(after)
    for reason, result in zip(reasons, results, strict=True):
        assert result is None or (result in shared["a.reason"].concepts and result in TAU.ancestors_of(reason))
    assert all(count >= LEAST for result, count in Counter(results).items() if result is not None)
    assert after.emptied == ({"a.reason": results.count(None)} if None in results else {})


def test_different_noise_keys_are_needed() -> None:
    masker = masker_of(plan_of({"a.reason": FIELD}, noise_key="patient"))
    alone = [{"a": {"reason": "A1.0"}, "patient": "p"}] * 30
    others = [{"a": {"reason": "B1.0"}, "patient": f"p{k}"} for k in range(8)]
    blocks = list(masked(masker, alone + others).blocks)
    shared = shared_of({"a.reason": FIELD}, window_of(blocks).original)["a.reason"].concepts
    assert "A1.0" not in shared
    assert "B1.0" in shared


def test_concepts_of_another_basis_are_not_used() -> None:
    masker = masker_of(plan_of({"a.reason": FIELD}))
    event = {"a": {"reason": "A1.2"}}
    for basis, concepts, expected in (
        (FIELD.basis, ("A", "root"), "A"),
        (replace(FIELD, records=LEAST + 1).basis, ("A",), None),
        (FIELD.basis, ("A", "nothing"), None),
        (FIELD.basis, (), None),
    ):
        masker.set_shared({"a.reason": SharedConcepts(basis, concepts)})
        assert written(masked(masker, [event])) == [expected]


@pytest.mark.parametrize(("depth", "expected"), [(1, "root"), (2, "A"), (3, "A1"), (4, "A1.0"), (9, "A1.0")])
def test_a_level_needs_no_window(depth: int, expected: str) -> None:
    treat = field_treatment(plan_of({"a.reason": LevelAncestor("small", depth, lambda: CODES)}), Pseudonyms(SECRET))
    assert treat({"a": {"reason": "a10"}}) == {"a": {"reason": expected}}
    assert treat({"a": {"reason": "nothing"}}) == {"a": {}}
    assert treat({"a": {"reason": None}}) == {"a": {"reason": None}}


def test_every_element_of_an_array_has_a_level() -> None:
    plan = plan_of({"list[*].code": LevelAncestor("small", 2, lambda: CODES)})
    record = {"list": [{"code": "A2.1"}, {"code": "B1"}, {"code": "none"}, {"code": "root"}]}
    assert field_treatment(plan, Pseudonyms(SECRET))(record) == {
        "list": [{"code": "A"}, {"code": "B"}, {}, {"code": "root"}]
    }


def test_sums_of_blocks_do_not_depend_on_their_number() -> None:
    masker = masker_of(plan_of({"a.reason": FIELD}))
    events = [{"a": {"reason": LEAVES[k * k % 9]}} for k in range(300)]
    single = list(chain.from_iterable(masked(masker, [event], k).blocks for k, event in enumerate(events)))
    window, whole = window_of(single), window_of(list(masked(masker, events).blocks))
    assert plain(window.original.rolled[FIELD.counts_key]) == plain(whole.original.rolled[FIELD.counts_key])


def test_a_block_tells_its_field_by_no_size() -> None:
    masker = masker_of(plan_of({"a.reason": FIELD}))
    sizes = set()
    for event in ({}, {"a": {"reason": "A"}}, {"a": {"reason": "B1.2"}}):
        (block,) = masked(masker, [event]).blocks
        sizes.add(padded_size(block, TAXONOMIES))
        assert len(encode_block(block, TAXONOMIES, configuration="0" * 16)) <= padded_size(block, TAXONOMIES)
    assert len(sizes) == 1


def changed(block: Block, change: Any) -> bytes:
    message = orjson.loads(encode_block(block, TAXONOMIES, configuration="0" * 16))
    change(message["fields"][FIELD.counts_key])
    return orjson.dumps(message)


@pytest.mark.parametrize(
    "change",
    [
        {"counts": [9]},
        {"counts": [0]},
        {"counts": [1, 1]},
        {"concepts": ["nothing"]},
        {"concepts": ["A1.0", "A1.0"], "counts": [1, 1]},
    ],
)
def test_impossible_counts_are_refused(change: dict[str, Any]) -> None:
    (block,) = masked(masker_of(plan_of({"a.reason": FIELD})), [{"a": {"reason": "A1.0"}}, {}]).blocks
    decode = partial(decode_block, taxonomies=TAXONOMIES, fields={FIELD.counts_key: TAU})
    decode(changed(block, lambda _: None))
    with pytest.raises(StatisticsError, match="block"):
        decode(changed(block, lambda section: section.update(change)))


def test_a_window_without_the_field_shares_nothing() -> None:
    """The blocks are older than the field, or of another ontology."""
    masker = masker_of(plan_of({}))
    counts: Counts = window_of(list(masked(masker, [{}] * 9).blocks)).original
    assert shared_of({"a.reason": FIELD}, counts) == {"a.reason": SharedConcepts(FIELD.basis, ())}
    assert shared_of({"a.reason": FIELD}, None) == {}


def test_only_a_level_can_be_a_context() -> None:
    (attribute,) = Context.of({"a.reason": ["A", "B"]}).attributes
    level = plan_of({"a.reason": LevelAncestor("small", 2, lambda: CODES)}).fields
    field = context_field(compile_path("a.reason"), attribute, level)
    assert [field.kind_of(value) for value in ("A2.1", "b1", "none", None)] == [0, 1, 2, 2]
    with pytest.raises(ConfigurationError, match="generalized by nothing but their value"):
        context_field(compile_path("a.reason"), attribute, plan_of({"a.reason": FIELD}).fields)
