"""Invalid plans are rejected with a message that names the key."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError

CODE = {"a": {"path": "d.code", "label": "d.text"}}


@pytest.mark.parametrize(
    ("attributes", "given", "message"),
    [
        ({"a": {"path": "x[*].y[*]", "label": "x[*].z"}}, {}, "exactly where"),
        ({"a": {"path": "x[*].code", "label": "x.label"}}, {}, "exactly where"),
        ({"a": {"path": "code", "copies": ["x[*].code"]}}, {}, "exactly where"),
        ({"a": {"path": "code", "also": ["x[*]"]}}, {}, "'code' and 'x[*]' both need a [*]"),
        ({"a": {"path": "coding[?s=x]"}}, {}, "ends with a filter"),
        ({"a": {"path": "code"}, "b": {"path": "code"}}, {}, "'code' (attribute a) and 'code' (attribute b)"),
        ({"a": {"path": "x[0].code"}, "b": {"path": "x[*].code"}}, {}, "can select the same value"),
        ({"a": {"path": "x.code", "label": "x"}}, {}, "can select the same value"),
        ({"a": {"path": "x.code", "copies": ["x.code"]}}, {}, "can select the same value"),
        (CODE, {"message": {"headers": ("stream-masker-version",)}}, "set by stream-masker itself"),
        (CODE, {"noise_key": "patients[*].id"}, "noise_key: path 'patients[*].id' has a [*]"),
    ],
)
def test_rejects_an_invalid_plan(bench, attributes, given, message):
    with pytest.raises(ConfigurationError) as raised:
        bench(attributes, **given)
    assert message in str(raised.value)
