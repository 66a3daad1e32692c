"""Files as hospitals have them: encodings, pretty-printed Bundles, and names of outputs."""

from __future__ import annotations

import json

import pytest
from support.file_commands import CODES, amend, read, run


def german(tmp_path, config, encoding, named=""):
    fields = {"keep": ["id", "wort"], "unlisted": "drop"}
    amend(config, fields=fields, produce={"encoding": named})
    rows = [f"{k};{CODES[k % 8]};{CODES[k * 3 % 8]};{'Größe' if k > 20 else 'x'}" for k in range(60)]
    (tmp_path / "in.csv").write_bytes("\n".join(["id;a;b;wort", *rows]).encode(encoding))
    return tmp_path / "in.csv"


@pytest.mark.parametrize(("encoding", "named"), [("utf-8-sig", ""), ("utf-16", ""), ("cp850", "cp850")])
def test_a_table_is_read_in_its_encoding_and_written_in_utf_8(tmp_path, config, encoding, named):
    source = german(tmp_path, config, encoding, named)
    assert "masked 60, rejected 0" in run("mask", "-c", config, source, tmp_path / "out.csv").stderr
    lines = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "id;a;b;wort"
    assert sum(line.endswith(";Größe") for line in lines) == 39


@pytest.mark.parametrize(
    ("encoding", "named", "message"),
    [
        ("cp1252", "", "in.csv, row 22: the text is not in utf-8: name the encoding of the file in produce.encoding"),
        ("cp1252", "ascii", "in.csv, row 22: the text is not in ascii"),
        ("utf-8", "klingon", "produce.encoding: 'klingon' is no encoding"),
    ],
)
def test_another_encoding_is_one_error_with_the_row(tmp_path, config, encoding, named, message):
    source = german(tmp_path, config, encoding, named)
    done = run("mask", "-c", config, source, tmp_path / "out.csv", code=2 if named == "klingon" else 1)
    assert message in done.stderr
    assert "Gr" not in done.stderr
    assert not (tmp_path / "out.csv").exists()


BUNDLE = {
    "resourceType": "Bundle",
    "type": "collection",
    "entry": [
        {"resource": {"resourceType": "Patient", "id": "p1", "gender": "female"}},
        {"resource": {"resourceType": "Condition", "id": "c1", "code": {"coding": [{"system": "s", "code": "A1"}]}}},
    ],
}


def test_pretty_printed_bundles_are_masked(tmp_path, config):
    amend(
        config,
        records="fhir",
        attributes={"c": {"path": "Condition.code.coding[*?system=s].code", "ontology": "tree", "missing": "keep"}},
        fields={"keep": ["Patient.gender", "Bundle.type"], "unlisted": "drop"},
        calibration={"min_records": 1},
        mechanism={"name": "semantic_noise"},
    )
    bundles = [json.loads(json.dumps(BUNDLE).replace("A1", code)) for code in CODES * 2]
    (tmp_path / "all.json").write_text(json.dumps(bundles, indent=2))
    (tmp_path / "one.json").write_text(json.dumps(BUNDLE, indent=2))
    assert "masked 16, rejected 0" in run("mask", "-c", config, tmp_path / "all.json", tmp_path / "out.jsonl").stderr
    assert [one["resourceType"] for one in read(tmp_path / "out.jsonl")] == ["Bundle"] * 16
    run("calibrate", "-c", config, tmp_path / "all.json", "-o", tmp_path / "snapshot.json")
    snapshot = ("--statistics", tmp_path / "snapshot.json")
    run("mask", "-c", config, *snapshot, tmp_path / "one.json", tmp_path / "masked.json")
    one = json.loads((tmp_path / "masked.json").read_text())
    assert one["entry"][0]["resource"] == {"resourceType": "Patient", "gender": "female"}


def test_the_delimiter_of_a_table_may_be_in_the_names_of_its_columns(tmp_path, config):
    header = '"Diagnose (ICD, GM, 2025, kurz, Text)";id;a;b'
    lines = [f"x;{k};{CODES[k % 8]};{CODES[k * 3 % 8]}" for k in range(60)]
    (tmp_path / "in.csv").write_text("\n".join([header, *lines]))
    assert "masked 60, rejected 0" in run("mask", "-c", config, tmp_path / "in.csv", tmp_path / "out.csv").stderr
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "id;a;b"
