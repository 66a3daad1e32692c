"""``config init`` and ``config check --events``: from a sample of events to a configuration that fits them."""

from __future__ import annotations

import json
import re

import orjson
import pytest
import yaml
from support.file_commands import run, write, write_configuration
from support.small_configuration import write_secret

ICD = ["E11.9", "I10", "I21.4", "J18.9", "N17.9", "I50.9", "E78.5", "F32.9", "A41.9", "K21.9"]
ICD9 = {"428.0": "428", "414.01": "414", "250.00": "250", "401.9": "401", "250.01": "250", "414.00": "414"}


def nested(k):
    return {
        "event": f"e{k}",
        "patient": {"id": f"p{k % 40}", "name": f"Ada {k}", "address": {"postalCode": f"{80000 + k}"}},
        "age": 20 + k % 70,
        "sex": "FM"[k % 2],
        "admitted": f"2024-01-{1 + k % 28:02}",
        "main": {"code": ICD[k % 10], "display": f"our own word {k % 10}"},
        "others": [{"code": ICD[(k * 3 + j) % 10]} for j in range(k % 3)],
        "remark": "xyzvw"[k % 5] * 9 + str(k),
    }


def proposed(folder, events, *arguments):
    """Propose a configuration for events, which are objects or the text of a table; return its path and content."""
    source = folder / "events.csv"
    if isinstance(events, str):
        source.write_text(events)
    else:
        source = write(folder / "events.jsonl", map(orjson.dumps, events))
    run("config", "init", "--events", source, *arguments, "-o", folder / "proposed.yaml")
    write_secret(folder)
    return folder / "proposed.yaml", yaml.safe_load((folder / "proposed.yaml").read_text())


def masked_text(folder, config):
    (source,) = folder.glob("events.*")
    run("mask", "-c", config, source, folder / f"out{source.suffix}")
    return (folder / f"out{source.suffix}").read_text()


def table(header, row, size=200):
    return "\n".join([header, *map(row, range(size))]) + "\n"


def test_a_proposal_for_nested_events_masks_them_and_says_of_each_field_why(tmp_path):
    config, content = proposed(tmp_path, [nested(k) for k in range(1200)])
    assert content["attributes"] == {
        "main": {"path": "main.code", "ontology": "icd10cm"},
        "others": {"path": "others[*].code", "ontology": "icd10cm"},
    }
    assert content["noise_key"] == "patient.id"
    assert content["fields"] == {"pseudonymize": ["patient.id"], "unlisted": "drop"}
    assert content["calibration"] == {"min_records": 1000}
    text = config.read_text()
    assert "100% of the values are concepts of icd10cm" in text
    reasons = dict(re.findall(r"# dropped: (\S+): (.*)", text))
    assert reasons == {
        "event": "1,200 values, no two of which are equal",
        "patient.name": "1,200 values, no two of which are equal",
        "patient.address.postalCode": "1,200 values, no two of which are equal",
        "age": "letters or short numbers, which are no codes",
        "sex": "letters or short numbers, which are no codes",
        "admitted": "0% of the values are concepts of icd10cm",
        "main.display": "it stands beside a code and may tell it",
        "remark": "1,200 values, no two of which are equal",
    }
    values = ("Ada", "p17", "xxxxx", "our own", "8000", "2024-01")
    assert not any(value in text + masked_text(tmp_path, config) for value in values)


TABLES = {
    "an index without a name, and an id that repeats": (
        table(",DESYNPUF_ID,dx", lambda k: f"{k},X{k % 90},{ICD[k % 10]}"),
        ["dx"],
        "DESYNPUF_ID",
    ),
    "names of persons' ids": (table("BENE_ID,dx", lambda k: f"{k % 40},{ICD[k % 10]}"), ["dx"], "BENE_ID"),
    "an id that is unique": (table("enrolid,dx", lambda k: f"{k},{ICD[k % 10]}"), ["dx"], "enrolid"),
    "an id that few share": (table("ward_id,dx", lambda k: f"w{k % 5},{ICD[k % 10]}"), ["dx"], "position"),
    "a name with the sign of alternatives, and names with line breaks": (
        table("pid,dx | code,a\x85b: c,dx\x85x: y", lambda k: f"{k % 40},{ICD[k % 10]},{k % 3},{ICD[k % 7]}"),
        ["['dx | code']", "dx\x85x: y"],
        "pid",
    ),
    "an id that is a code": (table("diagnosis_id,id", lambda k: f"{ICD[k % 10]},{k}"), ["diagnosis_id"], "position"),
    "another language, and a name that a path cannot express": (
        table("Fallnummer;Patient (ID);Diagnose [ICD.1];OPS", lambda k: f"F{k};p{k % 40};{ICD[k % 10]};5-470"),
        ["['Diagnose [ICD.1]']"],
        "Patient (ID)",
    ),
    "marks of missing codes": (
        table("pid,dx", lambda k: f"{k % 40},{[*ICD, 'NA', 'NULL', '-9', '.'][k % 14]}"),
        ["dx"],
        "pid",
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_proposal_for_a_table_masks_it(tmp_path, case):
    text, paths, key = TABLES[case]
    config, content = proposed(tmp_path, text)
    assert [attribute["path"] for attribute in content["attributes"].values()] == paths
    assert content["noise_key"] == key
    assert "# Tried on the sample (read 200: masked 200, rejected 0)." in config.read_text()
    assert masked_text(tmp_path, config).count("\n") == 201


def test_rows_that_are_no_events_are_counted_with_their_cause(tmp_path):
    config, _ = proposed(tmp_path, table("pid,dx", lambda k: f"{k % 40},{ICD[k % 10]}{',x' * (k == 50)}"))
    assert "(read 200: masked 199, rejected 1 (not_in_format at the number of cells 1))" in config.read_text()


def change(k):
    """Return an insert, an update or a delete of Debezium."""
    before, after = ({"patient_id": k % 40, "name": f"Ada {k}", "dx": ICD[(k + j) % 10]} for j in (0, 3))
    return {"before": [None, before][k % 3 > 0], "after": [after, None][k % 3 == 2], "op": "cud"[k % 3], "ts_ms": k}


def condition(k, **coding):
    codings = [{"code": ICD[k % 10], **coding}, {"system": "http://snomed.info/sct", "code": str(10**6 + k)}]
    subject = {"reference": f"Patient/{k % 40}", "display": "Ada"}
    return {"resourceType": "Condition", "id": f"c{k}", "subject": subject, "code": {"coding": codings}}


def bundle(k):
    patient = {"resource": {"resourceType": "Patient", "id": f"{k % 40}", "name": [{"family": "Ada"}]}}
    return {
        "resourceType": "Bundle",
        "type": "collection",
        "entry": [patient, {"resource": condition(k, system="icd")}],
    }


HEARTBEATS = [{"ts_ms": 1}] * 20
CODE = "Condition.code.coding[*?system=icd].code"
ENVELOPES = {
    "changes and heartbeats": (
        [*map(change, range(200)), *HEARTBEATS],
        "after.dx | before.dx",
        {"noise_key": "after.patient_id | before.patient_id"},
        "rejected 20 (missing_noise_key at after.patient_id | before.patient_id 20)",
    ),
    "changes with their schema": (
        [{"schema": {"type": "struct"}, "payload": change(k)} for k in range(200)],
        "payload.after.dx | payload.before.dx",
        {"noise_key": "payload.after.patient_id | payload.before.patient_id"},
        "rejected 0",
    ),
    "Bundles": (
        [*map(bundle, range(200)), {"population": 1}],
        CODE,
        {"noise_key": "patient", "records": "fhir"},
        "rejected 1 (unlisted_type 1)",
    ),
    "codings without a system": (
        [condition(k, **({"system": "icd"} if k % 3 else {})) for k in range(200)],
        CODE,
        {"noise_key": "patient", "records": "fhir"},
        "rejected 0",
    ),
}


@pytest.mark.parametrize("case", ENVELOPES)
def test_a_proposal_for_envelopes_and_resources_masks_what_is_in_them(tmp_path, case):
    events, path, sections, rejected = ENVELOPES[case]
    config, content = proposed(tmp_path, events)
    assert [attribute["path"] for attribute in content["attributes"].values()] == [path]
    assert {name: content.get(name) for name in sections} == sections
    assert f"masked 200, {rejected})." in config.read_text()
    masked = masked_text(tmp_path, config)
    assert masked.count("\n") == 200
    assert "Ada" not in config.read_text() + masked
    if case == "codings without a system":
        assert "# dropped: Condition.code.coding[*].code: codes without a system, beside" in config.read_text()


OLD = ["428.0", "414.01", "250.00", "V58.61", "E885.9", "401.9"]


def test_codes_of_icd_9_are_recognised_and_the_file_that_is_needed_is_named(tmp_path):
    plain, numbers = [code.replace(".", "") for code in OLD], [float(code) for code in OLD if code[0].isdigit()]
    columns = {"dots": OLD, "plain": plain, "numbers": numbers, "short": ["428", "414", "250", "401"]}
    events = [
        {"pid": k % 40, "dx": ICD[k % 10], **{name: codes[k % len(codes)] for name, codes in columns.items()}}
        for k in range(240)
    ]
    config, content = proposed(tmp_path, events)
    assert list(content["attributes"]) == ["dx"]
    dropped = dict(re.findall(r"# dropped: (\S+): (.*)", config.read_text()))
    what = "it looks like codes of ICD-9-CM, which is not shipped: make a table with the header concept,parent,label"
    assert dropped["dots"].startswith(what)
    assert dropped["plain"].startswith(what)
    assert dropped["numbers"].startswith("numbers, which look like codes of ICD-9-CM")
    assert dropped["short"].startswith("0% of the values are concepts of icd10cm")


def test_codes_of_digits_are_codes_of_their_ontology_in_their_style(tmp_path):
    links = {**ICD9, **dict.fromkeys(ICD9.values(), "ICD9")}
    rows = ["concept,parent", "ICD9,", *map(",".join, links.items())]
    (tmp_path / "icd9.csv").write_text("\n".join(rows) + "\n")
    both = [*ICD9, *ICD]
    events = [{"pid": k % 40, "icd9": [*ICD9][k % 6], "both": both[k % 16], "number": 414.01} for k in range(200)]
    for event in events:
        event["plain"] = event["icd9"].replace(".", "")
    config, content = proposed(tmp_path, events, "--ontology", f"icd9={tmp_path / 'icd9.csv'}")
    assert content["attributes"] == {
        "icd9": {"path": "icd9", "ontology": "icd9"},
        "plain": {"path": "plain", "ontology": "icd9", "style": "dotless"},
    }
    assert "# dropped: number: " in config.read_text()


def test_missing_and_unknown_codes_of_the_sample_decide_the_policies(tmp_path):
    events = [{"patient_id": f"p{k % 9}", "main": ICD[k % 10], "second": ICD[(k + 3) % 10]} for k in range(400)]
    del events[100]["second"]
    for k in range(0, 40, 2):
        events[k]["second"] = ("", None)[k % 4 // 2]
        events[k + 1]["main"] = ("E11.9XYZ", "??")[k % 4 // 2]
    config, content = proposed(tmp_path, events)
    assert content["attributes"]["second"] == {"path": "second", "ontology": "icd10cm", "missing": "keep"}
    assert content["attributes"]["main"] == {"path": "main", "ontology": "icd10cm", "unknown": "suppress"}
    assert "masked 400, rejected 0" in config.read_text()
    assert content["calibration"] == {"min_records": 400}


REFUSED = {
    "no codes": ([b'{"a": "xx"}', b'{"a": "yy"}'], "no field of 2 events has codes of icd10cm: name an ontology with"),
    "no objects": ([b"nothing", b'{"a'], "the sample has no event that is a JSON object"),
    "one code": ([b'{"main": {"code": "E11.9"}}'], "main.code: a single value, which cannot be masked"),
    "an empty object": ([b"{}"], "the fields are none"),
    "parameters": ([b'{"seed": 1, "population": 10}'], "population: letters or short numbers"),
    "odd shapes": ([b'{"entry": {"a": [[], [{}]]}}'], "the fields are none"),
    "a change without rows": ([b'{"before": 3, "after": [1, 2]}'], "after | before: letters or short numbers"),
    "a deep one": ([b'{"a":' * 900 + b"1" + b"}" * 900], "the sample has no event that is a JSON object"),
    "HL7 v2": ([b"MSH|^~\\&|A"], "start from the configuration of examples/hl7v2"),
    "FHIR": ([b'{"resourceType": "Bundle"}'], "start from the configuration of examples/fhir-bundle"),
    "a type that is none": ([b'{"resourceType": ["x"], "a": 1}'], "a: letters or short numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_samples_without_codes_are_refused_with_the_reason_of_each_field(tmp_path, case):
    lines, message = REFUSED[case]
    assert message in run("config", "init", "--events", write(tmp_path / "e.jsonl", lines), code=1).stderr


def test_a_sample_that_cannot_be_masked_by_itself_says_why(tmp_path):
    config, _ = proposed(tmp_path, [{"main": code, "scan": "x" * 1_100_000} for code in ICD[:2]])
    assert "CHECK: the sample cannot be masked with this proposal: " in config.read_text()


def test_check_shows_what_happens_to_each_field(tmp_path):
    config = write_configuration(tmp_path)
    content = yaml.safe_load(config.read_text())
    content["fields"]["keep"] = ["id", "no.such"]
    content["fields"]["constant"] = {"list[*].x": 1}
    content["noise_key"] = "key"
    config.write_text(json.dumps(content))
    events = [{"id": k, "patient": "Ada", "a": "A1", "b": "A2", "list": [{"x": 1, "y": 2}]} for k in range(20)]
    events += [{"id": 99, "a": "A1", "b": "no code", "key": 1}]
    source = write(tmp_path / "in.jsonl", [orjson.dumps(event) for event in events])
    lines = run("config", "check", "-c", config, "--events", source).stdout.splitlines()
    shown = {line.split()[0]: line.split(None, 2)[1:] for line in lines if "%" in line}
    assert shown == {
        "id": ["100.0%", "kept"],
        "patient": ["95.2%", "pseudonymized"],
        "a": ["100.0%", "masked: the code of a"],
        "b": ["100.0%", "masked: the code of b"],
        "list[*].x": ["95.2%", "replaced by a constant"],
        "list[*].y": ["95.2%", "dropped: not listed"],
        "key": ["4.8%", "dropped: not listed"],
        "no.such": ["0.0%", "configured, but no event has it"],
    }
    causes = "missing_noise_key at key 20, unknown_code at b 1"
    assert f"read 21: masked 0, rejected 21 ({causes})" in lines
    assert not any("Ada" in line or "no code" in line for line in lines)
