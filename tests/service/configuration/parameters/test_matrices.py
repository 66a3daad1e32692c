"""Markov matrices from files."""

from __future__ import annotations

import json

import pytest
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism

MATRIX = json.dumps({"a": {"a": 0.5, "l": 0.5}, "l": {"a": 0.25, "l": 0.75}}).encode()


def built(folder, content, matrices):
    (folder / "m.json").write_bytes(content)
    sections = {"ontologies": {"small": {"values": ["a", "l"]}}, "mechanism": {"name": "pram", "matrices": matrices}}
    return build_mechanism(parse_configuration(small_configuration("smell", **sections), folder=folder), bytes(16))


def test_pram_reads_matrices_relative_to_the_configuration(tmp_path):
    assert built(tmp_path, MATRIX, {"smell": "m.json"}).attributes == ("smell",)


@pytest.mark.parametrize(
    ("content", "matrices", "problem"),
    [
        (b"{", {"smell": "m.json"}, r"m\.json: not JSON \(line 1, column 2\)"),
        (b"\xff", {"smell": "m.json"}, r"m\.json: the matrix is not UTF-8 text"),
        (b"[]", {"smell": "m.json"}, "an object of objects"),
        (b'{"a": 1}', {"smell": "m.json"}, "an object of objects"),
        (b'{"a": {"a": true}}', {"smell": "m.json"}, "the row of 'a' has a cell that is not a number"),
        (b'{"a": {"a": 0.5}, "l": {"l": 1}}', {"smell": "m.json"}, "smell"),
        (MATRIX, {"taste": "m.json"}, "smell"),
        (MATRIX, {"smell": "other.json"}, r"other\.json: the matrix cannot be read: No such file"),
    ],
)
def test_wrong_matrices_are_errors_of_the_configuration(content, matrices, problem, tmp_path):
    with pytest.raises(ConfigurationError, match=rf"^mechanism: .*{problem}"):
        built(tmp_path, content, matrices)
