"""Synthetic events: structure, distribution and outbreak; and their publication, with librdkafka's mock broker."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from kafka_records import mock_broker, read_all
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.configuration.build import build_taxonomies
from stream_masker.service.events.publishing import topic_writer, write_events
from stream_masker.service.events.synthetic import BLOCK_EVENTS, OUTBREAK_SHARE, SyntheticDischarges

NESTED = {
    "principal": {"path": "dx.main.code", "label": "dx.main.text", "ontology": "icd", "copies": ["billing.code"]},
    "secondary": {"path": "dx.more[*].code", "label": "dx.more[*].text", "ontology": "icd"},
}
FLAT = {"principal": {"path": "a", "ontology": "icd"}, "secondary": {"path": "b", "ontology": "icd"}}


def configured(attributes: dict[str, object] = NESTED, **sections: object) -> Configuration:
    kept = {"ontologies": {"icd": {"source": "icd10cm"}}, "attributes": attributes, "fields": {"unlisted": "keep"}}
    return parse_configuration(small_configuration(**{**kept, **sections}))


def events(records: int, attributes: dict[str, object] = NESTED, **parameters: object) -> list[dict]:
    return list(SyntheticDischarges(configured(attributes), **parameters).events(records))


def test_events_have_different_known_codes_at_the_configured_paths() -> None:
    icd = build_taxonomies(configured())["principal"]
    for event in events(2_000):
        main, more = event["dx"]["main"], event["dx"]["more"]
        assert event["billing"]["code"] == main["code"]
        assert 1 <= len(more) <= 5
        assert len({entry["code"] for entry in (main, *more)}) == 1 + len(more)
        for entry in (main, *more):
            assert icd.leaf[icd.position(entry["code"])]
            assert entry["text"] == icd.label(entry["code"])


def test_seed_determines_the_events() -> None:
    generated = events(BLOCK_EVENTS + 10, seed=3)
    assert events(BLOCK_EVENTS + 20, seed=3)[: len(generated)] == generated
    assert events(10, seed=4) != generated[:10]


def test_an_outbreak_is_influenza_in_later_events_only() -> None:
    ill, well = events(9_000, FLAT, outbreak_after=100), events(9_000, FLAT)
    assert ill[:100] == well[:100]
    assert not any(event["a"].startswith("J10") for event in well[:100])
    share = sum(event["a"].startswith("J10") for event in ill[100:]) / 8_900
    assert abs(share - OUTBREAK_SHARE) < 0.02


def test_returning_patients_keep_their_identity() -> None:
    generated = events(5_000)
    people = {(e["patient"]["id"], e["patient"]["name"], e["age"], e["sex"]) for e in generated}
    assert len(people) == len({e["patient"]["id"] for e in generated})
    assert 0.6 * len(generated) < len(people) < 0.8 * len(generated)
    assert len({e["encounter_id"] for e in generated}) == len(generated)
    assert all(e["patient"]["name"].startswith("Synthetic ") for e in generated)
    assert all(0 <= e["age"] < 100 and 1 <= e["stay_days"] <= 60 for e in generated)


@pytest.mark.parametrize("links", ["A,R", "A,R\nB,R", "A,R\nA1,A\nA11,A1\nA12,A1\nB,R\nB,A"])
def test_small_ontologies_with_several_parents_have_events(tmp_path: Path, links: str) -> None:
    (tmp_path / "small.csv").write_text(f"concept,parent,label\nR,,\n{links.replace(chr(10), f',{chr(10)}')},\n")
    source = {"icd": {"source": str(tmp_path / "small.csv")}}
    discharges = SyntheticDischarges(configured(FLAT, ontologies=source), outbreak_after=10)
    known = {line.split(",")[0] for line in links.split("\n")}
    assert {e[name] for e in discharges.events(50) for name in "ab"} <= known


@pytest.mark.parametrize(
    ("path", "records", "said"),
    [
        ("code.coding[?system=http://hl7.org/fhir/sid/icd-10-cm].code", "json", "names and one"),
        ("Condition.code.coding[*].code", "fhir", "synthetic events are JSON, not fhir: use events of your own"),
        ("dx[*]", "json", "an attribute with one value"),
    ],
)
def test_events_that_cannot_be_generated_are_refused(path: str, records: str, said: str) -> None:
    attributes = {"principal": {"path": path, "ontology": "icd"}}
    configuration = configured(attributes, records=records, mechanism={"reference": "mean"})
    with pytest.raises(ConfigurationError, match=said):
        SyntheticDischarges(configuration)


def on_broker(bootstrap: str, properties: dict[str, object] | None = None, **sections: object) -> Configuration:
    return configured(FLAT, kafka={"bootstrap_servers": bootstrap, "properties": properties or {}}, **sections)


def publish(sent, configuration):
    with topic_writer(configuration) as write:
        write_events(sent, write, stream=io.StringIO())


def numbered(number, **members):
    return [{"patient": {"id": f"p{k % 7}"}, "n": k, **members} for k in range(number)]


@pytest.fixture
def bootstrap():
    """The address of a broker with the topic."""
    with mock_broker() as servers:
        Producer({"bootstrap.servers": servers}).list_topics("discharges", 10)
        yield servers


def test_a_full_queue_loses_no_record_and_equal_keys_stay_in_order(bootstrap):
    limit = {"queue.buffering.max.messages": 50}
    publish(numbered(2_000), on_broker(bootstrap, limit))
    records = read_all(bootstrap, "discharges")
    assert len(records) == 2_000
    assert all(r.key == r.json["patient"]["id"].encode() for r in records)
    for key in {r.key for r in records}:
        numbers = [r.json["n"] for r in records if r.key == key]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("limit", "error"), [({"message.max.bytes": 1_000}, "too large"), ({"message.timeout.ms": 21}, "timed out")]
)
def test_the_first_event_that_is_not_accepted_ends_the_run(bootstrap, limit, error):
    with pytest.raises(KafkaException, match=error):
        publish(numbered(3, text="x" * 2_000), on_broker(bootstrap, limit))


def test_records_of_schemas_are_refused():
    with pytest.raises(ConfigurationError, match="produce writes no records of schemas"):
        publish(numbered(1), on_broker("none", format={"value": "confluent"}))


def test_a_rate_is_kept_and_delays_are_caught_up(monkeypatch):
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    def write(event):
        now[0] += event == 2

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    write_events(range(14), write, stream=None, rate=10)
    assert slept == pytest.approx([0.1, 0.1, 0.1])
    write_events(range(14), write, stream=None)
    assert len(slept) == 3
