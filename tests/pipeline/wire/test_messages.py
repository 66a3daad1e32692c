"""The JSON messages: encoding and decoding, and rejection of invalid messages without their values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import orjson
import pytest

from stream_masker.core.batch import Distortion
from stream_masker.core.numeric import Moments
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.blocks import Sampling
from stream_masker.pipeline.records import Block, Rejected, Stratum
from stream_masker.pipeline.style import Style, StyleCounts
from stream_masker.pipeline.wire.blocks import block_key, decode_block, encode_block
from stream_masker.pipeline.wire.reports import (
    DriftReport,
    decode_drift,
    decode_rejection,
    encode_drift,
    encode_rejection,
)
from stream_masker.pipeline.wire.statistics import BlockRange, StatisticsMessage, decode_statistics, encode_statistics

EDGES = [("b", "a"), ("c", "a"), ("d", "b"), ("e", "b"), ("f", "c"), ("g", "c")]
SECRET = "SECRET"


def sparse(counts: dict[int, int]) -> SparseCounts:
    keys = sorted(counts)
    return SparseCounts(np.array(keys, dtype=np.int64), np.array([counts[k] for k in keys], dtype=np.int64))


def same(a: Counts, b: Counts) -> bool:
    columns = [*zip(a.values, b.values, strict=True), *((a.pairs[k], b.pairs[k]) for k in a.pairs)]
    arrays = all(np.array_equal(x.keys, y.keys) and np.array_equal(x.counts, y.counts) for x, y in columns)
    return arrays and a.records == b.records and set(a.pairs) == set(b.pairs)


@pytest.fixture
def taxonomies() -> dict[str, Taxonomy]:
    ontology = Ontology.from_edges(EDGES)
    return {"one": ontology.taxonomy(), "two": ontology.taxonomy(root="b"), "three": ontology.taxonomy(root="c")}


@pytest.fixture
def block(taxonomies: dict[str, Taxonomy]) -> Block:
    original = Counts(
        records=7,
        values=(sparse({0: 1, 4: 6}), sparse({1: 3, 2: 4}), sparse({2: 2})),
        pairs={(0, 1): sparse({0 * 3 + 2: 1, 4 * 3 + 1: 3, 4 * 3 + 2: 3}), (0, 2): sparse({14: 2}), (1, 2): sparse({})},
        given=(7, 9, 7),
        unknown=(0, 3, 5),
    )
    masked = Counts(
        records=7,
        values=(sparse({1: 7}), sparse({0: 7}), sparse({0: 2})),
        pairs={(0, 1): sparse({3: 7}), (0, 2): sparse({3: 2}), (1, 2): sparse({})},
        given=(7, 7, 0),
        unknown=(0, 0, 0),
    )
    return Block(
        topic="discharges",
        partition=3,
        first_offset=100,
        last_offset=109,
        timestamp=1_700_000_000_123,
        statistics_version=4,
        original=original,
        masked=masked,
        distortions=(Distortion(7, 0.1 + 0.2, 1e-300, 2, 1), Distortion(7, 0.5, 0.25), Distortion()),
        rejected={"not_json": 3},
    )


def test_a_block_survives_encoding_and_decoding(block: Block, taxonomies: dict[str, Taxonomy]) -> None:
    back = decode_block(encode_block(block, taxonomies, configuration="0123"), taxonomies)
    assert same(back.original, block.original)
    assert same(back.masked, block.masked)
    assert (back.original.given, back.original.unknown) == ((7, 9, 7), (0, 3, 5))
    assert back.masked.given == (7, 7, 0)
    plain = (
        "topic",
        "partition",
        "first_offset",
        "last_offset",
        "timestamp",
        "statistics_version",
        "distortions",
        "rejected",
    )
    assert [getattr(back, name) for name in plain] == [getattr(block, name) for name in plain]


@pytest.mark.parametrize("stratum", [None, Stratum(0, 0), Stratum(3, 6)])
def test_stratum_comes_back_and_is_in_the_key(
    block: Block, taxonomies: dict[str, Taxonomy], stratum: Stratum | None
) -> None:
    sent = replace(block, stratum=stratum)
    assert decode_block(encode_block(sent, taxonomies, configuration="0"), taxonomies).stratum == stratum
    assert block_key(sent) == (b"discharges:3:100" if stratum is None else b"discharges:3:100:%d" % stratum.level)


@pytest.mark.parametrize(
    "section", [{"start": 4, "level": 3}, {"start": -1, "level": 3}, {"start": 0, "level": 54}, {}]
)
def test_stratum_that_cannot_be_is_refused(
    block: Block, taxonomies: dict[str, Taxonomy], section: dict[str, int]
) -> None:
    raw = orjson.loads(encode_block(replace(block, stratum=Stratum(0, 0)), taxonomies, configuration="0"))
    with pytest.raises(StatisticsError, match=r"sampling\.(start|level)"):
        decode_block(orjson.dumps(raw | {"sampling": section}), taxonomies)


STYLES = tuple(StyleCounts(*range(first, first + 9)) for first in (1, 20, 0))


def test_style_counts_come_back_as_they_were(block: Block, taxonomies: dict[str, Taxonomy]) -> None:
    sent = replace(block, styles=STYLES)
    assert decode_block(encode_block(sent, taxonomies, configuration="0"), taxonomies).styles == STYLES


def test_blocks_without_style_counts_are_read(block: Block, taxonomies: dict[str, Taxonomy]) -> None:
    raw = encode_block(block, taxonomies, configuration="0")
    assert b"styles" not in raw
    assert decode_block(raw, taxonomies).styles == ()


def test_an_invalid_style_count_is_refused(block: Block, taxonomies: dict[str, Taxonomy]) -> None:
    raw = encode_block(replace(block, styles=STYLES), taxonomies, configuration="0")
    with pytest.raises(StatisticsError, match=r"attributes\.one\.styles\.dotless is missing or not an integer"):
        decode_block(changed(raw, "attributes.one.styles.dotless", -1), taxonomies)


NUMBERS = np.array([[1.5, 2.0], [np.nan, 4.0], [2.5, -1.0]])


def with_numbers(block: Block) -> Block:
    original = replace(block.original, numeric=Moments.of(NUMBERS))
    return replace(block, original=original, masked=replace(block.masked, numeric=Moments.of(NUMBERS / 3)))


def test_moments_survive_encoding_and_decoding(block: Block, taxonomies: dict[str, Taxonomy]) -> None:
    names = ("age", "charge")
    sent = with_numbers(block)
    back = decode_block(encode_block(sent, taxonomies, configuration="0", numeric=names), taxonomies, names)
    for before, after in ((sent.original, back.original), (sent.masked, back.masked)):
        assert after.numeric.to_dict() == before.numeric.to_dict()


@pytest.mark.parametrize(
    ("names", "path", "value", "told"),
    [
        (("age", "weight"), "", None, "numeric is missing or not of the configured numeric attributes"),
        ((), "", None, "numeric is missing or not of the configured numeric attributes"),
        (("age", "charge"), "numeric", ..., "numeric is missing or not of the configured numeric attributes"),
        (("age", "charge"), "numeric.masked", ..., "numeric.masked is missing"),
        (("age", "charge"), "numeric.original.count", [[1]], "moments must be square matrices of the same size"),
        (
            ("age", "charge"),
            "numeric.original",
            {"count": [[1]], "mean": [[0]], "products": [[0]]},
            "original is missing or not moments of all num",
        ),
    ],
)
def test_rejects_moments_of_other_attributes_or_another_shape(
    block: Block, taxonomies: dict[str, Taxonomy], names: tuple[str, ...], path: str, value: object, told: str
) -> None:
    raw = encode_block(with_numbers(block), taxonomies, configuration="0", numeric=("age", "charge"))
    with pytest.raises(StatisticsError, match=told):
        decode_block(changed(raw, path, value) if path else raw, taxonomies, names)


def test_an_encoded_block_is_the_documented_json(block: Block, taxonomies: dict[str, Taxonomy]) -> None:
    wire = orjson.loads(encode_block(block, taxonomies, configuration="0123"))
    assert wire["format"] == 1
    assert (wire["records"], wire["configuration"], wire["rejected"]) == (7, "0123", {"not_json": 3})
    assert wire["attributes"]["one"]["original"] == {"concepts": ["a", "e"], "counts": [1, 6]}
    assert wire["attributes"]["two"]["unknown"] == 3
    assert wire["pairs"][0]["attributes"] == ["one", "two"]
    assert wire["pairs"][0]["original"] == {"first": [0, 1, 1], "second": [1, 0, 1], "counts": [1, 3, 3]}
    assert [pair["attributes"] for pair in wire["pairs"]] == [["one", "two"], ["one", "three"], ["two", "three"]]


def test_the_key_names_the_block(block: Block) -> None:
    assert block_key(block) == b"discharges:3:100"


def test_a_reader_with_other_positions_counts_the_same_concepts(block: Block, taxonomies: dict[str, Taxonomy]) -> None:
    more = Ontology.from_edges([*EDGES, ("ab", "a"), ("ba", "b")])
    others = {"one": more.taxonomy(), "two": more.taxonomy(root="b"), "three": more.taxonomy(root="c")}
    back = decode_block(encode_block(block, taxonomies, configuration="0"), others).original
    for j, name in enumerate(others):
        there = dict(zip(others[name].decode(back.values[j].keys), back.values[j].counts.tolist(), strict=True))
        here = block.original.values[j]
        assert there == dict(zip(taxonomies[name].decode(here.keys), here.counts.tolist(), strict=True))
        assert (np.diff(back.values[j].keys) > 0).all()
    first, second = np.divmod(back.pairs[0, 1].keys, len(others["two"]))
    named = zip(
        others["one"].decode(first), others["two"].decode(second), back.pairs[0, 1].counts.tolist(), strict=True
    )
    assert set(named) == {("a", "e", 1), ("e", "d", 3), ("e", "e", 3)}


def changed(raw: bytes, path: str, value: object) -> bytes:
    """Return the message with another value at a dotted path; ``...`` removes the key."""
    message = orjson.loads(raw)
    *parents, last = path.split(".")
    place = message
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return orjson.dumps(message)


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("format", 2, "format"),
        ("format", ..., "format"),
        ("topic", 5, "topic"),
        ("partition", "0", "partition"),
        ("first_offset", -1, "first_offset"),
        ("first_offset", True, "first_offset"),
        ("last_offset", 99, "last_offset"),
        ("records", 1.5, "records"),
        ("rejected", {"not_json": SECRET}, "rejected.not_json"),
        ("attributes", {}, "attributes"),
        ("attributes.one", SECRET, "attributes.one"),
        ("attributes.one.squared_noise", -0.5, "attributes.one.squared_noise"),
        ("attributes.one.squared_noise", None, "attributes.one.squared_noise"),
        ("attributes.one.original.concepts", ["a", SECRET], "attributes.one.original.concepts"),
        ("attributes.one.original.concepts", ["a", 7], "attributes.one.original.concepts"),
        ("attributes.one.original.concepts", ["a", "a"], "attributes.one.original.counts"),
        ("attributes.one.original.counts", [1, 0], "attributes.one.original.counts"),
        ("attributes.one.original.counts", [1, 2.5], "attributes.one.original.counts"),
        ("attributes.one.original.counts", [1, True], "attributes.one.original.counts"),
        ("attributes.one.original.counts", [1, 2**63], "attributes.one.original.counts"),
        ("attributes.one.original.counts", [1], "attributes.one.original.counts"),
        ("pairs", [], "pairs"),
        ("pairs.0.attributes", ["two", "one"], "pairs"),
        ("pairs.0.masked", None, "pairs[0].masked"),
        ("pairs.0.original.first", [0, 1, 2], "pairs[0].original.first"),
        ("pairs.0.original.first", [0, 1], "pairs[0].original.first"),
        ("pairs.0.original.second", [0, 0, -1], "pairs[0].original.second"),
        ("pairs.0.original.first", [1, 1, 1], "pairs[0].original.counts"),
    ],
)
def test_rejects_an_invalid_block_with_the_place_and_without_the_value(
    block: Block, taxonomies: dict[str, Taxonomy], path: str, value: object, where: str
) -> None:
    raw = changed(encode_block(block, taxonomies, configuration="0"), path, value)
    with pytest.raises(StatisticsError, match="block") as caught:
        decode_block(raw, taxonomies)
    assert f" {where} is missing or not " in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("raw", [b"", b"SECRET", b"[1]", b'"SECRET"', b"\xff\xfe", b"null"])
def test_rejects_bytes_that_are_not_a_json_object(raw: bytes, taxonomies: dict[str, Taxonomy]) -> None:
    for decode in (lambda r: decode_block(r, taxonomies), decode_statistics, decode_drift, decode_rejection):
        with pytest.raises(StatisticsError) as caught:
            decode(raw)
        assert SECRET not in str(caught.value)


def statistics_message(**changes: object) -> StatisticsMessage:
    fields = {
        "version": 12,
        "mechanism": "semantic_noise",
        "configuration": "0123456789abcdef",
        "published": 1_700_000_000_000,
        "source": "blocks",
        "blocks": BlockRange(5, 9, 4),
        "taxonomies": {"one": "f1"},
        "baseline": 2,
        "snapshot": {"mechanism": "semantic_noise", "statistics": {"x": 0.1 + 0.2}},
    }
    return StatisticsMessage(**{**fields, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"source": "bootstrap", "blocks": None},
        {"settings": {"fields": {}}},
        {
            "blocks": BlockRange(5, 9, 4, level=3),
            "sampling": Sampling(2, 0.125, 3600.0, {"one": 0.01}, {("a", "b"): 0.1}),
        },
        {"styles": {"one": Style(dot="remove", case="lower"), "two": Style(text="label", leading_zeros="remove")}},
    ],
)
def test_a_statistics_message_survives_encoding_and_decoding(changes: dict[str, object]) -> None:
    message = statistics_message(**changes)
    assert decode_statistics(encode_statistics(message)) == message
    assert message.key == b"12"


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("version", 0, "version"),
        ("source", "elsewhere", "source"),
        ("blocks.last", 4, "blocks.last"),
        ("taxonomies.one", 5, "taxonomies.one"),
        ("snapshot", ..., "snapshot"),
        ("published", None, "published"),
        ("styles.one", None, "styles.one"),
        ("styles.one.dot", "insert", "styles.one.dot"),
        ("styles.one.case", ..., "styles.one.case"),
    ],
)
def test_rejects_an_invalid_statistics_message(path: str, value: object, where: str) -> None:
    with pytest.raises(StatisticsError, match=f"statistics: {where} is missing or not "):
        decode_statistics(changed(encode_statistics(statistics_message(styles={"one": Style()})), path, value))


def test_statistics_match_only_their_mechanism_and_taxonomies(taxonomies: dict[str, Taxonomy]) -> None:
    prints = {name: taxonomy.fingerprint for name, taxonomy in taxonomies.items()}
    message = statistics_message(taxonomies=prints)
    assert message.fits("semantic_noise", taxonomies)
    assert not message.fits("rank_swapping", taxonomies)
    assert not message.fits("semantic_noise", {**taxonomies, "one": taxonomies["two"]})
    assert not message.fits("semantic_noise", {"one": taxonomies["one"]})


def test_rejects_statistics_with_a_snapshot_of_another_version() -> None:
    with pytest.raises(StatisticsError, match="the statistics do not have the expected format"):
        _ = statistics_message().statistics


@pytest.mark.parametrize("previous", [None, {"mean": {"one": 0.25}}])
def test_a_drift_report_survives_encoding_and_decoding(previous: dict[str, object] | None) -> None:
    report = DriftReport(3, 17, previous, None, {"rmse": {"one": 0.5}}, 12_000, 3)
    wire = orjson.loads(encode_drift(report))
    assert (wire["format"], wire["baseline"], wire["window"]) == (1, None, {"records": 12_000, "blocks": 3})
    assert decode_drift(encode_drift(report)) == report


@pytest.mark.parametrize("field", [None, "diagnoses.principal.code"])
def test_a_rejection_holds_reason_and_location(field: str | None) -> None:
    raw = encode_rejection(Rejected(7, "not_json", field), topic="discharges", partition=2)
    assert decode_rejection(raw) == ("discharges", 2, Rejected(7, "not_json", field))
    assert ("field" in orjson.loads(raw)) == (field is not None)
