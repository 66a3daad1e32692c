"""Settings: extracting and replacing the mutable part of a configuration."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.loading import load_configuration
from stream_masker.service.configuration.mutable_settings import (
    changes_needing_restart,
    mutable_settings,
    with_settings,
)


def test_settings_are_plain_data_and_round_trip(example):
    configuration = load_configuration(example, {})
    settings = json.loads(json.dumps(mutable_settings(configuration)))
    again = with_settings(configuration, settings)
    assert again == configuration
    assert again.hash == configuration.hash
    assert again.folder == configuration.folder


def test_settings_leave_out_later_keys_while_they_are_empty(parse):
    fields = {"pseudonymize": ["patient.id"], "unlisted": "drop"}
    assert "references" not in mutable_settings(parse(fields=fields))["fields"]
    with_references = parse(fields={**fields, "references": ["subject.reference"]}, records="json")
    assert mutable_settings(with_references)["fields"]["references"] == ["subject.reference"]


NOISE = {"name": "semantic_noise"}


def test_settings_move_between_configurations(parse):
    base = parse(mechanism=NOISE)
    changes = {
        "attributes": {"principal": {"alpha": 0.7, "unknown": "ancestor", "missing": "keep"}},
        "mechanism": {**NOISE, "reference": "mean", "rounding": "ceil", "correlated": False},
        "fields": {"keep": ["age"], "unlisted": "keep"},
        "message": {"key": "drop"},
    }
    wanted = parse(**changes)
    moved = with_settings(base, mutable_settings(wanted))
    assert moved == wanted
    assert moved.hash == wanted.hash != base.hash
    assert with_settings(moved, mutable_settings(base)) == base


def test_missing_setting_gets_its_default(parse):
    pairs = [["principal", "secondary"]]
    base = parse(mechanism={**NOISE, "pairs": pairs, "reference": "pair"})
    assert with_settings(base, mutable_settings(parse(mechanism=NOISE))) == parse(mechanism=NOISE)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda s: s["attributes"]["principal"].update(path="patient.name"), "attributes.principal.path"),
        (lambda s: s["attributes"].update(third={"alpha": 0.1}), "attributes.third"),
        (lambda s: s["attributes"].pop("principal"), "attributes.principal"),
        (lambda s: s["mechanism"].update(distance="log_taxonomic"), "mechanism.distance"),
        (lambda s: s.update(noise_key="patient.id"), "noise_key"),
        (lambda s: s.pop("fields"), "fields"),
    ],
)
def test_immutable_settings_are_refused(parse, change, named):
    settings = deepcopy(mutable_settings(parse()))
    change(settings)
    with pytest.raises(ConfigurationError, match=rf"settings: {named} cannot be changed while running"):
        with_settings(parse(), settings)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["attributes"]["principal"].update(alpha=99.0),
        lambda s: s["mechanism"].update(reference="median"),
        lambda s: s["fields"].update(unlisted="perhaps"),
        lambda s: s["fields"].update(keep=["a..b"]),
    ],
)
def test_invalid_settings_are_refused(parse, change):
    settings = deepcopy(mutable_settings(parse(mechanism=NOISE)))
    change(settings)
    with pytest.raises(ConfigurationError):
        with_settings(parse(mechanism=NOISE), settings)


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"attributes": {"principal": {"alpha": 0.9}}, "message": {"key": "keep"}}, []),
        ({"mechanism": {**NOISE, "reference": "root"}}, []),
        ({"mechanism": {**NOISE, "distance": "log_taxonomic"}}, ["mechanism"]),
        ({"mechanism": {"name": "semantic_transport"}}, ["mechanism"]),
        ({"noise_key": "patient.id"}, ["noise_key"]),
        ({"attributes": {"principal": {"path": "diagnoses.main.code"}}}, ["attributes"]),
        ({"http": {"port": 1}, "worker": {"batch_records": 7}}, []),
    ],
)
def test_keys_that_need_a_restart_are_found(parse, changes, keys):
    base = {"mechanism": NOISE}
    assert changes_needing_restart(parse(**base), parse(**base | changes)) == keys


def test_the_level_of_a_transport_can_change_and_its_promise_cannot(parse):
    base, level = (parse(attributes={"principal": {"alpha": alpha}}) for alpha in (0.3, 0.9))
    assert changes_needing_restart(base, level) == []
    assert with_settings(base, mutable_settings(level)) == level
    assert changes_needing_restart(base, parse(mechanism={"certainty": 0.4})) == ["mechanism"]
