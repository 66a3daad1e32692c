"""``config init`` and ``config check --events``: from a sample of events to a configuration that fits them."""

from __future__ import annotations

import json
import re

import orjson
import pytest
import yaml
from support.file_commands import CODES, read, run, write, write_configuration
from support.small_configuration import write_secret

from stream_masker.core.ontology import Ontology

SYSTEM = "http://hl7.org/fhir/sid/icd-10-cm"
ICD = ["E11.9", "I10", "I21.4", "J18.9", "N17.9", "I50.9", "E78.5", "F32.9", "A41.9", "K21.9"]


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


def encounter(k):
    coding = [{"system": SYSTEM, "code": ICD[k % 10]}, {"system": "http://x", "code": "401314000"}]
    return {
        "resourceType": "Encounter",
        "id": f"enc-{k}",
        "subject": {"reference": f"Patient/{k % 40}"},
        "reasonCode": [{"coding": coding}],
    }


def proposed(folder, events, *arguments):
    """Propose a configuration for events, and add what it needs to mask."""
    source = write(folder / "events.jsonl", [orjson.dumps(event) for event in events])
    run("config", "init", "--events", source, *arguments, "-o", folder / "proposed.yaml")
    write_secret(folder)
    return folder / "proposed.yaml", yaml.safe_load((folder / "proposed.yaml").read_text())


def test_a_proposal_for_nested_events_masks_them(tmp_path):
    events = [nested(k) for k in range(1200)]
    config, content = proposed(tmp_path, events)
    assert content["attributes"] == {
        "main": {"path": "main.code", "ontology": "icd10cm"},
        "others": {"path": "others[*].code", "ontology": "icd10cm"},
    }
    assert content["noise_key"] == "patient.id"
    assert content["fields"] == {
        "keep": ["sex"],
        "pseudonymize": ["event", "patient.id"],
        "generalize": {
            "patient.address.postalCode": {"characters": 3},
            "age": {"width": 5, "top": 90},
            "admitted": {"date": "year"},
        },
        "unlisted": "drop",
    }
    text = config.read_text()
    assert re.findall(r"# dropped: (\S+):", text) == ["patient.name", "main.display", "remark"]
    run("mask", "-c", config, tmp_path / "events.jsonl", tmp_path / "out.jsonl")
    masked = read(tmp_path / "out.jsonl")
    assert len(masked) == 1200
    text = (tmp_path / "out.jsonl").read_text()
    assert "Ada" not in text
    assert "xxxxxxxxx" not in text
    assert "our own word" not in text
    assert "2024-01" not in text


def test_a_proposal_for_fhir_selects_the_coding_of_the_system(tmp_path):
    _, content = proposed(tmp_path, [encounter(k) for k in range(1200)])
    (attribute,) = content["attributes"].values()
    assert content["records"] == "fhir"
    assert attribute["path"] == f"Encounter.reasonCode[*].coding[*?system={SYSTEM}].code"
    assert content["noise_key"] == "patient"
    assert content["fields"]["references"] == ["Encounter.id", "Encounter.subject"]
    assert content["fields"]["keep"] == [f"Encounter.reasonCode[*].coding[*?system={SYSTEM}].system"]


def test_a_masked_code_of_fhir_keeps_its_code_system(tmp_path):
    config, _ = proposed(tmp_path, [encounter(k) for k in range(1200)])
    run("mask", "-c", config, tmp_path / "events.jsonl", tmp_path / "out.jsonl")
    codings = [coding for one in read(tmp_path / "out.jsonl") for coding in one["reasonCode"][0]["coding"]]
    assert {coding.get("system") for coding in codings if "code" in coding} == {SYSTEM}
    assert not any("http://x" in coding.values() for coding in codings)


def test_a_proposal_for_fhir_leaves_no_empty_object_and_every_reference(tmp_path):
    def resource(k):
        one = encounter(k)
        one["subject"] |= {"display": "Ada", "identifier": {"value": f"x{k}"}}
        participant = [{"individual": {"display": "Dr. Who"}}]
        contained = {"resourceType": "Patient", "id": "a", "name": [{"family": "Ada", "given": ["B", "C"]}]}
        one["meta"] = {"lastUpdated": f"2024-01-{1 + k % 28:02}T10:15:00Z", "versionId": "1"}
        return one | {"participant": participant, "text": {"div": "Ada"}, "contained": [contained]}

    config, _content = proposed(tmp_path, [resource(k) for k in range(1200)])
    run("mask", "-c", config, tmp_path / "events.jsonl", tmp_path / "out.jsonl")
    text = (tmp_path / "out.jsonl").read_text()
    assert not any(part in text for part in ("{}", "[]", "Ada", "Dr.", "401314000"))
    assert {len(one["subject"]["reference"]) for one in read(tmp_path / "out.jsonl")} == {len("Patient/") + 32}


def test_an_entry_without_a_name_does_not_drop_the_resources_of_a_bundle(tmp_path):
    entries = [{"search": {"score": "free text"}, "resource": encounter(k)} for k in range(1200)]
    bundles = [{"resourceType": "Bundle", "type": "searchset", "entry": [entry]} for entry in entries]
    config, _ = proposed(tmp_path, bundles)
    run("mask", "-c", config, tmp_path / "events.jsonl", tmp_path / "out.jsonl")
    assert all("reasonCode" in one["entry"][0]["resource"] for one in read(tmp_path / "out.jsonl"))


def test_a_bundle_of_several_patients_is_explained(tmp_path):
    resources = [{"resource": encounter(k)} for k in range(60)]
    _, content = proposed(tmp_path, [{"resourceType": "Bundle", "type": "searchset", "entry": resources}])
    assert content["noise_key"] == "patient"
    told = "several_patients 1 (split a Bundle of several patients into one for each)"
    assert told in (tmp_path / "proposed.yaml").read_text()
    done = run("mask", "-c", tmp_path / "proposed.yaml", tmp_path / "events.jsonl", tmp_path / "out.jsonl", code=1)
    assert told in done.stderr


def test_a_sample_with_a_single_code_is_refused_with_its_path(tmp_path):
    source = write(tmp_path / "one.json", [orjson.dumps({"main": {"code": "E11.9"}})])
    told = "and give events with several codes; the fields are main.code"
    assert told in run("config", "init", "--events", source, code=1).stderr


def test_postcodes_are_texts_though_none_of_the_sample_has_a_leading_zero(tmp_path):
    rows = [f"p{k % 40};{ICD[k % 10]};{k % 90};{80331 + k % 7}" for k in range(1100)]
    (tmp_path / "visits.csv").write_text("\n".join(["patient_id;icd;alter;PLZ", *rows]))
    content = yaml.safe_load(run("config", "init", "--events", tmp_path / "visits.csv").stdout)
    assert content["produce"] == {"numbers": ["alter"]}
    assert content["fields"]["generalize"]["PLZ"] == {"characters": 3}


def test_a_proposal_for_a_table_knows_its_numbers_and_another_ontology(tmp_path):
    write_configuration(tmp_path)
    rows = [f"{k},{k % 40},0{k % 10},{CODES[k % 8]},{CODES[k * 3 % 8]}" for k in range(1100)]
    (tmp_path / "visits.csv").write_text("\n".join(["visit_id,patient_id,ward,first,second", *rows]) + "\n")
    arguments = ["--events", tmp_path / "visits.csv", "--ontology", f"tree={tmp_path / 'tree.csv'}"]
    content = yaml.safe_load(run("config", "init", *arguments).stdout)
    assert content["produce"] == {"numbers": ["visit_id", "patient_id"]}
    assert content["attributes"] == {name: {"path": name, "ontology": "tree"} for name in ("first", "second")}
    assert content["ontologies"] == {"tree": {"source": str(tmp_path / "tree.csv")}}
    assert content["fields"] == {"pseudonymize": ["visit_id", "patient_id"], "unlisted": "drop"}
    assert content["noise_key"] == "patient_id"


def test_rows_of_another_length_are_no_events_of_the_sample(tmp_path):
    rows = [f"p{k % 40};{ICD[k % 10]};{k % 90}" + ";9" * (k == 7) for k in range(1100)]
    (tmp_path / "visits.csv").write_text("\n".join(["patient_id;icd;alter", *rows]))
    shown = run("config", "init", "--events", tmp_path / "visits.csv").stdout
    assert yaml.safe_load(shown)["produce"] == {"numbers": ["alter"]}


def test_the_proposal_shows_no_value(tmp_path):
    source = write(tmp_path / "events.jsonl", [orjson.dumps(nested(k)) for k in range(300)])
    shown = run("config", "init", "--events", source).output
    assert not any(value in shown for value in ("Ada", "p17", "xxxxx", "our own", "E11.9", "8000", "2024-01"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b'{"a": "x"}', b'{"a": "y"}'], "no field of 2 events has codes of icd10cm: name an ontology with --ontology"),
        ([b"[]", b"nothing"], "the sample has no event that is a JSON object"),
    ],
)
def test_samples_without_codes_are_refused(tmp_path, lines, message):
    assert message in run("config", "init", "--events", write(tmp_path / "e.jsonl", lines), code=1).stderr


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
    assert "noise_key key: in 1 of 21 events" in lines
    causes = "missing_noise_key at key 20, unknown_code at b 1"
    assert f"21 of 21 events would be rejected: {causes}" in lines
    assert not any("Ada" in line or "no code" in line for line in lines)


def test_numbered_ids_that_look_like_codes_are_no_attributes(tmp_path):
    events = [
        {"visit": f"V{k % 100:02}.{k // 100}", "patient_id": f"p{100 + k % 500}", "main_code": ICD[k % 10]}
        for k in range(1000)
    ]
    _, content = proposed(tmp_path, events)
    assert content["attributes"] == {"main_code": {"path": "main_code", "ontology": "icd10cm"}}
    assert content["fields"]["pseudonymize"] == ["visit", "patient_id"]
    assert content["noise_key"] == "patient_id"
    (tmp_path / "own").mkdir()
    _, content = proposed(tmp_path / "own", [{"diagnosis_id": ICD[k % 10], "id": k} for k in range(200)])
    assert list(content["attributes"]) == ["diagnosis_id"]


GERMAN = "Fallnummer;Patient (ID);Alter;Geburtsdatum;Aufnahme;Geschlecht;PLZ;Hauptdiagnose (ICD);icd_gm;OPS"
GERMAN += ";Diagnosetext;Station"


def german_row(k):
    gm, ops = ("E11.90G", "I10.00V", "J18.9L")[k % 3], ("5-470.11", "8-930", "1-632.0")[k % 3]
    text, birth = ("Diabetes mellitus", "Bluthochdruck", "Pneumonie")[k % 3], f"{1 + k % 28:02}.07.{1930 + k % 60}"
    patient, ward = f"p{k % 40}", ("Kardiologie", "Chirurgie")[k % 2]
    admitted = f"{1 + k % 28}.3.2024 10:15"
    return (
        f"F{k};{patient};{k % 95};{birth};{admitted};{'mw'[k % 2]};{10115 + k};{ICD[k % 10]};{gm};{ops};{text};{ward}"
    )


def test_no_diagnosis_of_a_german_table_is_left_in_the_clear(tmp_path):
    source = tmp_path / "fälle.csv"
    source.write_text("\n".join([GERMAN, *map(german_row, range(300))]) + "\n")
    done = run("config", "init", "--events", source, "-o", tmp_path / "proposed.yaml")
    assert f"config check --config {tmp_path / 'proposed.yaml'} --events '{source}'" in done.stderr
    text = (tmp_path / "proposed.yaml").read_text()
    content = yaml.safe_load(text)
    assert content["attributes"] == {"Hauptdiagnose_ICD": {"path": "Hauptdiagnose (ICD)", "ontology": "icd10cm"}}
    assert content["fields"] == {
        "keep": ["Geschlecht"],
        "pseudonymize": ["Fallnummer", "Patient (ID)"],
        "generalize": {
            "Alter": {"width": 5, "top": 90},
            "Geburtsdatum": {"date": "decade", "formats": ["%d.%m.%Y"]},
            "Aufnahme": {"date": "year", "formats": ["%d.%m.%Y %H:%M"]},
            "PLZ": {"characters": 3},
        },
        "unlisted": "drop",
    }
    assert content["noise_key"] == "Patient (ID)"
    assert "# Of the sample, 300 can be masked, rejected 0." in text
    assert "# dropped: icd_gm: CHECK: the values look like codes" in text
    assert "# dropped: OPS: CHECK: the values look like codes" in text
    write_secret(tmp_path)
    run("mask", "-c", tmp_path / "proposed.yaml", source, tmp_path / "masked.jsonl")
    masked = (tmp_path / "masked.jsonl").read_text()
    assert len(masked.splitlines()) == 300
    assert not any(word in masked for word in ("E11.90", "5-470", "Diabetes", "Pneumonie", "Kardio", ".07.", "10:15"))


def test_cells_with_several_codes_are_lists_which_are_masked_and_written_as_cells(tmp_path):
    rows = [f"p{k % 9},{ICD[k % 10]},{'; '.join(ICD[k % 10 : k % 10 + k % 3])}" for k in range(100)]
    source = tmp_path / "visits.csv"
    source.write_text("\n".join(["patient_id,main,others", *rows]) + "\n")
    run("config", "init", "--events", source, "-o", tmp_path / "proposed.yaml")
    content = yaml.safe_load((tmp_path / "proposed.yaml").read_text())
    assert content["produce"] == {"lists": {"others": "; "}}
    assert content["attributes"]["others"] == {"path": "others[*]", "ontology": "icd10cm", "missing": "keep"}
    write_secret(tmp_path)
    run("mask", "-c", tmp_path / "proposed.yaml", source, tmp_path / "masked.csv")
    cells = [
        [row.split(",")[2] for row in text.splitlines()[1:]]
        for text in (source.read_text(), (tmp_path / "masked.csv").read_text())
    ]
    assert [len(cell.split("; ")) for cell in cells[0]] == [len(cell.split("; ")) for cell in cells[1]]
    assert all(code in Ontology.load("icd10cm") for cell in cells[1] if cell for code in cell.split("; "))
    assert cells[0] != cells[1]


def test_texts_with_several_codes_that_are_no_cells_are_dropped_and_explained(tmp_path):
    events = [
        {"patient_id": f"p{k % 9}", "main": ICD[k % 10], "all": "|".join(ICD[k % 5 : k % 5 + 3])} for k in range(60)
    ]
    config, _content = proposed(tmp_path, events)
    assert (
        "# dropped: all: CHECK: the values look like codes: name their ontology with --ontology, and write several"
        in config.read_text()
    )


def test_missing_and_unknown_codes_of_the_sample_decide_the_policies(tmp_path):
    events = [{"patient_id": f"p{k % 9}", "main": ICD[k % 10], "second": ICD[(k + 3) % 10]} for k in range(400)]
    del events[100]["second"]
    for k in range(0, 40, 2):
        events[k]["second"] = ("", None)[k % 4 // 2]
        events[k + 1]["main"] = ("E11.9XYZ", "??")[k % 4 // 2]
    config, content = proposed(tmp_path, events)
    assert content["attributes"]["second"] == {"path": "second", "ontology": "icd10cm", "missing": "keep"}
    assert content["attributes"]["main"] == {"path": "main", "ontology": "icd10cm", "unknown": "suppress"}
    assert "400 can be masked, rejected 0" in config.read_text()
    assert content["calibration"] == {"min_records": 400}


@pytest.mark.parametrize("name", ["['visit.code']", "['visit [main]']"])
def test_names_that_paths_cannot_express_are_quoted(tmp_path, name):
    events = [{name[2:-2]: ICD[k % 10], "patient_id": f"p{k % 9}"} for k in range(60)]
    _, content = proposed(tmp_path, events)
    (attribute,) = content["attributes"].values()
    assert attribute["path"] == name


def bundle(k):
    status = {"coding": [{"system": "http://terminology.hl7.org/x", "code": "active"}]}
    patient = {"resourceType": "Patient", "id": f"p{k % 20}", "gender": "female", "birthDate": "1948-07-04"}
    condition = {
        "resourceType": "Condition",
        "id": f"c{k}",
        "clinicalStatus": status,
        "subject": {"reference": f"Patient/p{k % 20}", "display": "Ada"},
        "code": {"coding": [{"system": SYSTEM, "code": ICD[k % 10], "display": "mine"}], "text": "sugar"},
    }
    visit = encounter(k) | {"subject": {"reference": f"Patient/p{k % 20}"}}
    return {"resourceType": "Bundle", "type": "batch", "entry": [{"resource": r} for r in (patient, condition, visit)]}


def test_a_proposal_for_bundles_masks_every_place_of_a_code(tmp_path):
    config, content = proposed(tmp_path, [bundle(k) for k in range(200)])
    assert content["records"] == "fhir"
    (attribute,) = content["attributes"].values()
    coding = f"coding[*?system={SYSTEM}].code"
    assert {attribute["path"], *attribute["also"]} == {f"Condition.code.{coding}", f"Encounter.reasonCode[*].{coding}"}
    kept = {
        "Bundle.type",
        "Patient.gender",
        "Condition.clinicalStatus.coding[*?system=http://terminology.hl7.org/x].code",
    }
    assert kept <= {*content["fields"]["keep"]}
    assert content["fields"]["generalize"] == {"Patient.birthDate": {"date": "year"}}
    run("mask", "-c", config, tmp_path / "events.jsonl", tmp_path / "out.jsonl")
    text = (tmp_path / "out.jsonl").read_text()
    assert len(text.splitlines()) == 200
    assert not any(word in text for word in ("Ada", "mine", "sugar", "401314000", "1948-07"))


def test_codes_with_the_marks_of_icd_10_gm_are_masked_where_their_ontology_is_given(tmp_path):
    rows = [
        "ICD,,Alle",
        "E11,ICD,Diabetes",
        "E11.9,E11,Ohne",
        "E11.90,E11.9,Nicht entgleist",
        "I10,ICD,Hypertonie",
        "I10.00,I10,Benigne",
        "J18.9,ICD,Pneumonie",
    ]
    (tmp_path / "gm.csv").write_text("\n".join(["concept,parent,label", *rows]) + "\n", encoding="utf-8-sig")
    codes = ("E11.90G", "I10.00V", "J18.9L", "E11.90")
    events = [{"patient_id": f"p{k % 9}", "icd_gm": codes[k % 4]} for k in range(200)]
    config, content = proposed(tmp_path, events, "--ontology", f"gm={tmp_path / 'gm.csv'}")
    assert content["attributes"] == {"icd_gm": {"path": "icd_gm", "ontology": "gm", "unknown": "ancestor"}}
    assert "200 can be masked, rejected 0" in config.read_text()


def test_a_sample_that_cannot_be_masked_by_itself_says_why(tmp_path):
    events = [{"patient_id": f"p{k % 9}", "icd": "I10" if k else "E11.9", "dx": "I10"} for k in range(60)]
    config, content = proposed(tmp_path, events)
    assert list(content["attributes"]) == ["icd"]
    assert "# dropped: dx: CHECK: the values look like codes" in config.read_text()


def test_the_proposal_for_a_single_bundle_asks_for_more(tmp_path):
    entries = [entry for k in range(6) for entry in bundle(k)["entry"][1:]]
    config, _ = proposed(tmp_path, [{"resourceType": "Bundle", "type": "batch", "entry": entries}])
    assert "It cannot be masked by its own statistics: " in config.read_text()


def test_fields_that_may_have_codes_are_named_and_not_all_of_many(tmp_path):
    events = [{**{f"field_{k}": k for k in range(50)}, "OPS": "5-470.11"}]
    done = run("config", "init", "--events", write(tmp_path / "e.jsonl", map(orjson.dumps, events)), code=1)
    assert "the fields are field_0, field_1" in done.stderr
    assert "and 31 more" in done.stderr
