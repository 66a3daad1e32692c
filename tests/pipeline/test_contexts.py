"""The context of records, from their bytes to their masks: how it is read, counted and kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.context import Context
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport
from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.core.statistics.counts import merge
from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import AttributePlan, FieldPolicy, Place, Plan, context_field
from stream_masker.pipeline.records import InputRecord, Inputs
from stream_masker.pipeline.transforms import Constant, DateUnit, FieldTransform, LeadingCharacters, NumberBands

SECRET = b"a secret of at least sixteen bytes"
WOMEN, MEN, BOTH = ["w1", "w2", "w3"], ["m1", "m2", "m3"], ["b1", "b2", "b3"]
ONTOLOGY = Ontology.from_edges([(code, code[0]) for code in WOMEN + MEN + BOTH] + [(g, "root") for g in "wmb"])
TAU = ONTOLOGY.taxonomy()
CONTEXT = Context.of({"sex": ["F", "M"], "age": [18, 65]})


def policy(transforms: dict[str, FieldTransform] | None = None, **lists: list[str]) -> FieldPolicy:
    kept = {key: tuple(map(compile_path, texts)) for key, texts in lists.items()}
    transformed = {compile_path(path): transform for path, transform in (transforms or {}).items()}
    return FieldPolicy(unlisted="drop", transforms={"generalize": transformed} if transformed else {}, **kept)


def plan_of(fields: FieldPolicy) -> Plan:
    concepts = ConceptMap(TAU, unknown="reject", ontology=ONTOLOGY)
    context = tuple(context_field(compile_path(attribute.name), attribute, fields) for attribute in CONTEXT.attributes)
    attributes = (AttributePlan(name="code", places=(Place(compile_path("code")),), concepts=concepts),)
    return Plan(attributes=attributes, fields=fields, configuration="0" * 16, context=context)


def transport(**given: Any) -> SemanticTransport:
    kinds = {attribute.name: list(attribute.texts or attribute.bounds) for attribute in CONTEXT.attributes}
    return SemanticTransport({"code": TAU}, context=kinds, seed=SECRET, **given)


def contexts_of(fields: FieldPolicy, values: list[bytes]) -> list[int]:
    masker = RecordMasker(plan_of(fields), transport(), SECRET)
    batches = list(masker.encode(values))
    return [c for batch in batches if batch.context is not None for c in batch.context.tolist()]


ANY = st.one_of(
    st.sampled_from(["F", "M", "f", "", "17", "18", "65", "nan", "40-49", "é", "a\\b"]),
    st.none() | st.booleans() | st.integers(-5, 130) | st.floats(-1e3, 1e3) | st.sampled_from([[], {}, ["F"], [18]]),
    st.sampled_from([10**20, -(10**30), 1e300]),
)


@given(events=st.lists(st.fixed_dictionaries({}, optional={"sex": ANY, "age": ANY}), max_size=12))
@pytest.mark.parametrize("transforms", [{}, {"age": NumberBands(10, 90)}])
def test_the_kinds_of_any_values_are_read(transforms: dict[str, FieldTransform], events: list[dict[str, Any]]) -> None:
    fields = policy(transforms, keep=["sex", *({"age"} - transforms.keys())])
    values = [orjson.dumps({**event, "code": "b1"}, option=orjson.OPT_NON_STR_KEYS) for event in map(_written, events)]
    contexts = contexts_of(fields, values)
    read = [orjson.loads(value) for value in values]
    plan = plan_of(fields)
    kinds = [[field.kind_of(event.get(field.path.text)) for field in plan.context] for event in read]
    assert contexts == CONTEXT.numbers_of(np.array(kinds, np.int64)).tolist()


def _written(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without integers that the encoder cannot write."""
    return {
        key: float(value) if isinstance(value, int) and abs(value) > 2**63 else value for key, value in event.items()
    }


@pytest.mark.parametrize(
    ("transform", "value", "same", "other"),
    [
        (NumberBands(10, 90), 41, 49.5, 50),
        (NumberBands(10, 90), 90, 104, 89),
        (DateUnit("year"), "1980-03-14", "1980-12-31", "1981-01-01"),
        (LeadingCharacters(2), "97531", "97", "98000"),
    ],
)
def test_a_kind_is_a_function_of_what_is_released(transform: FieldTransform, value: Any, same: Any, other: Any) -> None:
    """The bounds lie between the values of one released value, too, and do not tell them apart."""
    bounds = [45, 50, 95, 98, 1980.5, 1981] if isinstance(transform, DateUnit | LeadingCharacters) else [45, 50, 90, 95]
    (attribute,) = Context.of({"x": bounds}).attributes
    field = context_field(compile_path("x"), attribute, policy({"x": transform}))
    assert field.kind_of(value) == field.kind_of(same) != field.kind_of(other)
    assert field.kind_of("none") == field.kind_of(None) == field.attribute.size - 1


class TestFieldsThatDoNotStay:
    (ATTRIBUTE,) = Context.of({"x": ["a"]}).attributes

    def message(self, path: str, fields: FieldPolicy, masked: list[str] = []) -> str:  # noqa: B006
        with pytest.raises(ConfigurationError) as raised:
            context_field(compile_path(path), self.ATTRIBUTE, fields, map(compile_path, masked))
        return str(raised.value)

    @pytest.mark.parametrize(
        ("path", "given", "where"),
        [
            ("x", {}, "fields.unlisted"),
            ("x", {"drop": ["x"]}, "fields.drop"),
            ("x", {"pseudonymize": ["x"]}, "fields.pseudonymize"),
            ("a.x", {"keep": ["a"], "pseudonymize": ["a.x"]}, "fields.pseudonymize"),
            ("a.x", {"keep": ["a.x"], "drop": ["a.x.y"]}, "fields.drop"),
            ("a[0].x", {"keep": ["a[*].x"], "drop": ["a[?k=v].x"]}, "fields.drop"),
            ("x", {"transforms": {"x": Constant("a")}}, "fields.generalize"),
        ],
    )
    def test_the_message_names_the_treatment(self, path: str, given: dict[str, Any], where: str) -> None:
        transforms = given.pop("transforms", None)
        assert f"({where})" in self.message(path, policy(transforms, **given))

    def test_an_array_and_a_masked_value_are_refused(self) -> None:
        assert "without [*]" in self.message("a[*].x", policy(keep=["a"]))
        assert "is masked" in self.message("a.code", policy(keep=["a"]), ["a.code"])
        assert "is masked" in self.message("a", policy(keep=["a"]), ["a.code"])

    @pytest.mark.parametrize(
        ("path", "keep"), [("a.x", ["a"]), ("a[1].x", ["a[*].x"]), ("a[?k=v].x", ["a[*?k=v].x"]), ("a.x", ["a", "a.x"])]
    )
    def test_kept_paths_may_be_written_in_another_way(self, path: str, keep: list[str]) -> None:
        assert context_field(compile_path(path), self.ATTRIBUTE, policy(keep=keep)).path == compile_path(path)


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


def inputs(values: list[bytes]) -> Inputs:
    return Inputs.of([InputRecord(offset, value) for offset, value in enumerate(values)])


@pytest.fixture(scope="module")
def masked() -> tuple[list[bytes], Any, SemanticTransport]:
    """Records, the result of masking them by their own statistics, and the mechanism."""
    values, fields, mechanism = events(2_000), policy(keep=["sex", "age"]), transport()
    counts = RecordMasker(plan_of(fields), mechanism, SECRET).count(values).counts
    mechanism = mechanism.with_statistics(mechanism.compute(counts, version=1), counts)
    masker = RecordMasker(plan_of(fields), mechanism, SECRET)
    return values, masker.mask("t", 0, inputs(values), statistics_version=1), mechanism


def test_no_code_of_the_other_sex_is_written(masked: Any) -> None:
    values, result, _ = masked
    pairs = [(orjson.loads(before), orjson.loads(after)) for before, after in zip(values, result.values, strict=True)]
    assert not result.rejected
    assert sum(before["code"] != after["code"] for before, after in pairs) > 500
    for sex, others in (("F", MEN), ("M", WOMEN)):
        codes = [after["code"] for _, after in pairs if after.get("sex") == sex]
        assert codes
        assert not set(codes) & set(others)


def test_records_without_a_listed_sex_share_a_law_and_are_not_rejected(masked: Any) -> None:
    values, result, _ = masked
    shared = [orjson.loads(v)["code"] for v in result.values if orjson.loads(v).get("sex") not in ("F", "M")]
    assert len(shared) == len(values) // 20
    assert set(shared) & set(WOMEN)
    assert set(shared) & set(MEN)


def test_blocks_count_each_context(masked: Any) -> None:
    """The masked side has no contexts."""
    values, result, mechanism = masked
    (block,) = result.blocks
    assert not block.masked.contexts
    assert merge(block.original.contexts.values()).values[0].counts.tolist() == block.original.values[0].counts.tolist()
    masker = RecordMasker(plan_of(policy(keep=["sex", "age"])), mechanism, SECRET)
    assert masker.count(values).counts.contexts.keys() == block.original.contexts.keys()
