"""Markov matrices from files."""

from __future__ import annotations

import pytest
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism
from stream_masker.service.configuration.parameters.matrices import read_matrix

MATRIX = {"a": {"a": 0.5, "l": 0.5}, "l": {"a": 0.25, "l": 0.75}}
FILES = {
    "m.json": '{"a": {"a": 0.5, "l": 0.5}, "l": {"a": 0.25, "l": 0.75}}',
    "m.csv": ",a,l\na,0.5,0.5\n\nl,.25,0.75\n",
    "m.tsv": "odor\ta\tl\na\t5e-1\t0.5\nl\t0.25\t0.75",
}


@pytest.mark.parametrize("name", FILES)
def test_all_file_formats_give_the_same_matrix(name, tmp_path):
    path = tmp_path / name
    path.write_text(FILES[name])
    assert read_matrix(path) == MATRIX


def test_empty_cell_is_0(tmp_path):
    (tmp_path / "m.csv").write_text(",a,l\na,1,\nl,,1\n")
    assert read_matrix(tmp_path / "m.csv") == {"a": {"a": 1, "l": 0}, "l": {"a": 0, "l": 1}}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("m.xlsx", b"", "a matrix must be a .json, .csv or .tsv file"),
        ("m.json", b"{", r"not JSON \(line 1, column 2\)"),
        ("m.json", b"[]", "an object of objects"),
        ("m.json", b'{"a": 1}', "an object of objects"),
        ("m.json", b'{"a": {"a": true}}', "the row of 'a' has a cell that is not a number"),
        ("m.json", b'{"a": {"a": "x"}}', "the row of 'a' has a cell that is not a number"),
        ("m.csv", b"\xff", "not UTF-8"),
        ("m.csv", b"", "the first line must name the values of the columns"),
        ("m.csv", b",a,l\na,1\n", "line 2 has 2 cells, but the first has 3"),
        ("m.csv", b",a,l\na,1,0\na,1,0\n", "line 3: the row of 'a' is a duplicate"),
        ("m.csv", b",a\na,one\n", "line 2 has a cell that is not a number"),
    ],
)
def test_invalid_matrix_files_are_errors(name, content, problem, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"^{tmp_path}/{name}: .*{problem}"):
        read_matrix(tmp_path / name)


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="the matrix cannot be read: No such file"):
        read_matrix(tmp_path / "m.csv")


def configured(folder, **mechanism):
    sections = {"ontologies": {"small": {"values": ["a", "l"]}}, "mechanism": {"name": "pram", **mechanism}}
    return parse_configuration(small_configuration("smell", **sections), folder=folder)


def test_pram_reads_matrices_relative_to_the_configuration(tmp_path):
    (tmp_path / "m.csv").write_text(FILES["m.csv"])
    assert build_mechanism(configured(tmp_path, matrices={"smell": "m.csv"}), bytes(16)).attributes == ("smell",)


@pytest.mark.parametrize(
    ("content", "matrices", "problem"),
    [
        (",a,l\na,0.5,0.6\nl,0.5,0.5\n", {"smell": "m.csv"}, r"^mechanism: .*smell"),
        (",a,x\na,0.5,0.5\nx,0.5,0.5\n", {"smell": "m.csv"}, r"^mechanism: .*"),
        (FILES["m.csv"], {"taste": "m.csv"}, r"^mechanism: .*smell"),
        (FILES["m.csv"], {"smell": "other.csv"}, r"^mechanism: .*other\.csv: the matrix cannot be read"),
    ],
)
def test_matrices_that_the_mechanism_rejects_are_configuration_errors(content, matrices, problem, tmp_path):
    (tmp_path / "m.csv").write_text(content)
    with pytest.raises(ConfigurationError, match=problem):
        build_mechanism(configured(tmp_path, matrices=matrices), bytes(16))
