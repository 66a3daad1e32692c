"""Invalid plans are rejected with a message that names the key."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError

CODE = {"path": "d.code"}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "attributes: at least one is required"),
        ({"a": {"path": "x[*].y[*]", "label": "x[*].z"}}, "exactly where"),
        ({"a": {"path": "code", "also": ["x[*]"]}}, "'code' and 'x[*]' both need a [*]"),
        ({"a": {"path": "x[*].code", "label": "x.label"}}, "exactly where"),
        ({"a": {"path": "code", "copies": ["x[*].code"]}}, "exactly where"),
        ({"a": {"path": "coding[?s=x]"}}, "ends with a filter"),
        ({"a": {"path": "code"}, "b": {"path": "code"}}, "'code' (attribute a) and 'code' (attribute b)"),
        ({"a": {"path": "x[0].code"}, "b": {"path": "x[*].code"}}, "can select the same value"),
        ({"a": {"path": "x.code", "label": "x"}}, "can select the same value"),
        ({"a": {"path": "x.code", "copies": ["x.code"]}}, "can select the same value"),
    ],
)
def test_rejects_invalid_attributes(bench, attributes, message):
    with pytest.raises(ConfigurationError) as raised:
        bench(attributes)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"keep": ["a.b"], "drop": ["a.b"]}, "'a.b' is in keep and in drop"),
        ({"keep": ["['a'].b"], "pseudonymize": ["a.b"]}, "is in keep and in pseudonymize"),
        ({"drop": ["d.code"]}, "'d.code' is that of an attribute's code"),
        (
            {"keep": ["d.code.coding"]},
            "'d.code.coding' is that of an attribute's code, label or copy, or continues inside it",
        ),
        ({"drop": ["d.text.de[0]"]}, "path 'd.text.de[0]' is that"),
        ({"pseudonymize": ["d.text"]}, "'d.text' is that of an attribute's code"),
    ],
)
def test_rejects_invalid_fields(bench, fields, message):
    with pytest.raises(ConfigurationError) as raised:
        bench({"a": {"path": "d.code", "label": "d.text"}}, fields=fields)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"message": {"headers": ("stream-masker-version",)}}, "set by stream-masker itself"),
        ({"noise_key": "patients[*].id"}, "noise_key: path 'patients[*].id' has a [*]"),
    ],
)
def test_rejects_other_invalid_settings(bench, given, message):
    with pytest.raises(ConfigurationError) as raised:
        bench({"a": CODE}, **given)
    assert message in str(raised.value)
