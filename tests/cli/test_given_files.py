"""Files as hospitals have them: encodings, Bundles, folders, workbooks, and names of outputs."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from support.file_commands import CODES, LINES, amend, read, run, write

from stream_masker.service.files.inputs import open_input


def german(tmp_path, config, encoding):
    amend(config, fields={"keep": ["id", "wort"], "unlisted": "drop"})
    rows = [f"{k};{CODES[k % 8]};{CODES[k * 3 % 8]};{'Größe' if k > 20 else 'x'}" for k in range(60)]
    (tmp_path / "in.csv").write_bytes("\n".join(["id;a;b;wort", *rows]).encode(encoding))
    return run("mask", "-c", config, tmp_path / "in.csv", tmp_path / "out.csv")


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_a_table_in_windows_1252_is_read_and_a_warning_says_so(tmp_path, config, encoding):
    done = german(tmp_path, config, encoding)
    assert "masked 60, rejected 0" in done.stderr
    said = f"warning: {tmp_path / 'in.csv'} is not UTF-8: it is read as Windows-1252, and what is written is UTF-8"
    assert said in done.stderr.splitlines()
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").count("Größe") == 39


def test_a_table_in_utf_8_has_no_warning(tmp_path, config, caplog):
    assert "Windows" not in german(tmp_path, config, "utf-8").stderr + caplog.text


BUNDLE = {
    "resourceType": "Bundle",
    "type": "collection",
    "entry": [
        {"resource": {"resourceType": "Patient", "id": "p1", "gender": "female"}},
        {"resource": {"resourceType": "Condition", "id": "c1", "code": {"coding": [{"system": "s", "code": "A1"}]}}},
    ],
}


def of_fhir(config):
    """Write a configuration for FHIR."""
    content = yaml.safe_load(config.read_text()) | {
        "records": "fhir",
        "attributes": {"c": {"path": "Condition.code.coding[*?system=s].code", "ontology": "tree", "missing": "keep"}},
        "fields": {"keep": ["Patient.gender", "Bundle.type"], "unlisted": "drop"},
        "noise_key": "position",
        "calibration": {"min_records": 1},
        "mechanism": {"name": "semantic_noise"},
    }
    config.write_text(yaml.safe_dump(content))


def bundles(folder, count):
    for k in range(count):
        one = json.loads(json.dumps(BUNDLE))
        one["entry"][1]["resource"]["code"]["coding"][0]["code"] = CODES[k % 8]
        (folder / f"{k}.json").write_text(json.dumps(one, indent=2))


def test_a_pretty_printed_bundle_and_a_folder_of_them_are_masked(tmp_path, config):
    of_fhir(config)
    folder = tmp_path / "bundles"
    folder.mkdir()
    bundles(folder, 20)
    done = run("mask", "-c", config, folder, tmp_path / "out.jsonl")
    assert "masked 20, rejected 0" in done.stderr
    assert [one["resourceType"] for one in read(tmp_path / "out.jsonl")] == ["Bundle"] * 20
    run("calibrate", "-c", config, folder, "-o", tmp_path / "snapshot.json")
    run("mask", "-c", config, "--statistics", tmp_path / "snapshot.json", folder / "3.json", tmp_path / "one.json")
    one = json.loads((tmp_path / "one.json").read_text())
    assert one["entry"][0]["resource"] == {"resourceType": "Patient", "gender": "female"}
    run("mask", "-c", config, folder, tmp_path / "all.json")
    assert len(json.loads((tmp_path / "all.json").read_text())) == 20


def test_the_files_of_a_bulk_export_are_read_as_one(tmp_path, config):
    of_fhir(config)
    folder = tmp_path / "export"
    folder.mkdir()
    patient = {"resourceType": "Patient", "id": "p1", "gender": "female"}
    conditions = [
        {"resourceType": "Condition", "id": f"c{k}", "code": {"coding": [{"system": "s", "code": CODES[k % 8]}]}}
        for k in range(30)
    ]
    (folder / "Patient.000.ndjson").write_text(json.dumps(patient) + "\n")
    (folder / "Condition.000.ndjson").write_text("".join(json.dumps(one) + "\n" for one in conditions))
    run("mask", "-c", config, folder, tmp_path / "out.ndjson")
    assert [one["resourceType"] for one in read(tmp_path / "out.ndjson")] == ["Condition"] * 30 + ["Patient"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.xlsx", b"PK\x03\x04....", "is an Excel workbook, of which each sheet can be saved as CSV"),
        ("in.xls", b"\xd0\xcf\x11\xe0....", "is an Excel workbook, of which each sheet can be saved as CSV"),
        ("in.ods", b"PK\x03\x04....", "is an OpenDocument workbook, of which each sheet can be saved as CSV"),
        ("in.zip", b"PK\x03\x04....", "is a zip archive"),
        ("in.csv", "id;a\n1;A1\n".encode("utf-16"), "is text in UTF-16, which can be saved as UTF-8"),
        ("in.txt", b"Dear colleague,\nthank you for sending Ada.\n", "is text without columns"),
        ("in.json", b'{\n "a": 1,\n', "is not one complete JSON document"),
    ],
)
def test_what_is_no_table_says_what_it_is(tmp_path, config, name, content, message):
    (tmp_path / name).write_bytes(content)
    done = run("mask", "-c", config, tmp_path / name, tmp_path / "out.jsonl", code=1)
    assert message in done.stderr
    assert "rejected" not in done.stderr
    assert "Ada" not in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("name", ["out.xlsx", "out.txt", "out.xml", "out.csv.bz2"])
def test_an_output_of_an_unknown_suffix_is_refused(tmp_path, config, name):
    source = write(tmp_path / "in.jsonl", LINES)
    done = run("mask", "-c", config, source, tmp_path / name, code=1)
    assert "are not written: use .avro, .binpb, .csv, .hl7, .json, .jsonl" in done.stderr
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (["in.csv"], "has no file that ends in .json, .jsonl, .ndjson, .hl7, .mllp: name a table itself"),
        (["2023/in.json", "2024/in.json"], "has only other folders: name one of 2023, 2024"),
        ([], "is empty"),
    ],
)
def test_a_folder_without_events_says_what_it_has(tmp_path, config, made, message):
    folder = tmp_path / "given"
    folder.mkdir()
    for name in made:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("id;a\n1;A1\n")
    done = run("mask", "-c", config, folder, tmp_path / "out.jsonl", code=1)
    assert f"the folder {folder} {message}" in done.stderr


def test_the_folders_in_a_folder_of_events_are_named(tmp_path, config):
    folder = tmp_path / "given"
    (folder / "older").mkdir(parents=True)
    write(folder / "in.jsonl", LINES)
    done = run("mask", "-c", config, folder, tmp_path / "out.jsonl")
    assert f"warning: the folders in {folder} are not read: older" in done.stderr


@pytest.mark.parametrize("quote", ['"', ""])
def test_the_delimiter_of_a_table_may_be_in_the_names_of_its_columns(tmp_path, config, quote):
    names = ["Diagnose (ICD, GM, 2025, kurz, Text)", "id", "a", "b"]
    lines = [f"x;{k};{CODES[k % 8]};{CODES[k * 3 % 8]}" for k in range(60)]
    (tmp_path / "in.csv").write_text("\n".join([";".join(f"{quote}{name}{quote}" for name in names), *lines]))
    assert "masked 60, rejected 0" in run("mask", "-c", config, tmp_path / "in.csv", tmp_path / "out.csv").stderr
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "id;a;b"


@pytest.mark.parametrize("name", ["out.tsv", "out.TSV.gz"])
def test_a_name_that_ends_in_tsv_has_tabs(tmp_path, config, name):
    lines = [f"{k};{CODES[k % 8]};{CODES[k * 3 % 8]}" for k in range(60)]
    (tmp_path / "in.csv").write_text("\n".join(["id;a;b", *lines]))
    run("mask", "-c", config, tmp_path / "in.csv", tmp_path / name)
    with open_input(str(tmp_path / name)) as file:
        assert file.stream.readline() == b"id\ta\tb\n"


def test_an_output_may_be_the_name_of_a_pipe(tmp_path, config):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        content = reader.submit(pipe.read_bytes)
        run("mask", "-q", "-c", config, write(tmp_path / "in.jsonl", LINES), pipe)
    assert content.result().count(b"\n") == len(LINES)


def test_a_suffix_that_is_not_written_is_refused_before_anything_is_read(tmp_path, config):
    """Reading these events would end with another error: they are too few for statistics."""
    done = run("mask", "-c", config, write(tmp_path / "few.jsonl", LINES[:2]), tmp_path / "out.foo", code=1)
    assert "out.foo: files that end in .foo are not written" in done.stderr
