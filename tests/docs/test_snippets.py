"""The snippets of the documentation: configurations are valid, events are masked, messages fit, Python runs."""

from __future__ import annotations

import orjson
import pytest
import yaml
from support.documentation import ROOT, blocks, configuration_text
from support.results import InputRecord, Masked, inputs, outcomes
from support.schemas import schema_validator
from support.small_configuration import merged

from stream_masker.pipeline.masker import RecordMasker
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan

SECRET = b"a secret of the tests"
EVENTS = ["A flat event", "A nested event", "A FHIR R4 Encounter", "A change event of Debezium"]
ORIGINALS = ["I21.4", "E11.9", "E119", "Ada Example", "4711", "8222157", "401314000", "NSTEMI"]


@pytest.mark.parametrize("block", [block for block in blocks("yaml") if not block.title], ids=str)
def test_every_configuration_and_every_part_of_one_is_valid(block):
    given = yaml.safe_load(block.text)
    if not {"ontologies", "attributes", "fields"} <= given.keys():
        given = merged(yaml.safe_load(configuration_text()), given)
        paths = {attribute["path"] for attribute in given["attributes"].values()}
        given["fields"]["keep"] = [path for path in given["fields"]["keep"] if path not in paths]
    assert parse_configuration(given)


def test_the_readme_shows_the_configuration_of_getting_started():
    (shown,) = blocks("yaml", "Kafka in five minutes", "README.md")
    assert shown.text == configuration_text()


@pytest.mark.parametrize("event", EVENTS)
def test_every_example_is_masked_by_its_configuration(event):
    """The rounding of the papers keeps no code; the window has the event and others."""
    before = orjson.loads(blocks("json", event)[0].text)
    paper = {"mechanism": {"name": "semantic_noise", "preset": "paper"}}
    configuration = parse_configuration(yaml.safe_load(blocks("yaml", event)[0].text) | paper)
    mechanism = build_mechanism(configuration, SECRET)
    masker = RecordMasker(build_plan(configuration), mechanism, SECRET)
    others = [orjson.dumps(before).replace(b"I21.4", code) for code in (b"J18.9", b"S72.001A", b"C50.911")]
    others += [other.replace(code, b"O80") for other in others for code in (b"E11.9", b"E119")]
    statistics = mechanism.compute(masker.count(masker.read([orjson.dumps(before), *others])), version=1)
    mechanism.restore(mechanism.snapshot_of(statistics))
    (outcome,) = outcomes(masker.mask("t", 0, inputs([InputRecord(0, orjson.dumps(before))]), statistics_version=1))
    assert isinstance(outcome, Masked)
    assert [text for text in ORIGINALS if text in outcome.value.decode()] == []
    assert len(orjson.loads(outcome.value)) >= 3


def test_every_message_fits_its_schema_and_every_other_json_block_is_an_event_or_a_response():
    messages = [block for block in blocks("json") if block.title.endswith(".schema.json")]
    assert messages
    for block in messages:
        schema_validator(block.title.removesuffix(".schema.json")).validate(orjson.loads(block.text))
    (ready,) = [block for block in blocks("json") if block.title.startswith("/readyz")]
    assert list(orjson.loads(ready.text)) == ["ready", "reasons", "notes"]
    others = {block.heading for block in blocks("json") if not block.title}
    assert others == {*EVENTS, "FHIR Bundles"}


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_every_python_example_runs(block, capsys):
    names = {}
    exec(compile(block.text, block.page, "exec"), names)
    assert capsys.readouterr().out
    if "changed" in names:
        text = " ".join((ROOT / "docs" / "python.md").read_text().split())
        assert f"In this example {100 * names['changed']:.0f} % of the principal diagnoses change." in text
