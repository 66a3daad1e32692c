"""FHIR Bundles through the command ``mask``: those of the example, which are like Synthea's and the specification's."""

from __future__ import annotations

import re

import orjson
from support.documents import named_scalars
from support.file_commands import run, write

from golden import examples
from stream_masker import Ontology

FOLDER = examples.FOLDER / "fhir-bundle"
REFERENCE = re.compile(r"(urn:uuid:|[A-Z][A-Za-z]+/|[A-Z][A-Za-z]+\?identifier=[^|]+\||#)?[0-9a-f-]{32,36}")


def lines(file):
    return [orjson.loads(line) for line in examples.content("fhir-bundle", file).splitlines()]


ORIGINAL, MASKED = lines("events"), lines("expected")
TYPES = frozenset({"Patient", "Encounter", "Condition", "Claim", "ExplanationOfBenefit", "male", "female"})
TELLING = ("id", "reference", "family", "value", "fullUrl", "text", "birthDate", "city", "postalCode", "given")
WORDS = {"Ada Doe", "Dr. Example", "snomed", "(disorder)"}


def codings(resource):
    """The codes of ICD-10-CM, in their order."""
    found = re.findall(rb'\{"system":"http://hl7.org/fhir/sid/icd-10-cm","code":"([^"]+)"', orjson.dumps(resource))
    return [code.decode() for code in found]


def test_codes_are_masked_and_equal_codes_of_a_bundle_equally():
    icd, changed = Ontology.load("icd10cm"), 0
    for before, after in zip(ORIGINAL, MASKED, strict=True):
        pairs = set(zip(codings(before), codings(after), strict=True))
        assert len(pairs) == len({code for code, _ in pairs})
        changed += sum(one != other for one, other in pairs)
        assert all(code in icd for code in codings(after))
    assert changed > 100


def test_no_raw_id_name_date_or_text_is_left():
    for before, after in zip(ORIGINAL, MASKED, strict=True):
        raw = {value for name, value in named_scalars(before) if name in TELLING and isinstance(value, str)}
        written = orjson.dumps(after).decode()
        assert [text for text in (raw | WORDS) - TYPES if text in written] == []


def test_references_still_resolve_and_are_typed():
    for before, after in zip(ORIGINAL[1:], MASKED[1:], strict=True):
        urls = {entry["fullUrl"]: entry["resource"] for entry in after["entry"]}
        assert all(url == f"urn:uuid:{one['id']}" for url, one in urls.items())
        requests = [entry["request"] for entry in after["entry"]]
        assert requests == [{"method": "POST", "url": one["resourceType"]} for one in urls.values()]
        references = [value for name, value in named_scalars(after) if name == "reference"]
        assert all(REFERENCE.fullmatch(reference) for reference in references)
        assert all(one in urls or one.startswith(("Practitioner/", "Practitioner?identifier=")) for one in references)
        (patient,) = [url for url, one in urls.items() if one["resourceType"] == "Patient"]
        subjects = [
            (one.get("subject") or one.get("patient"))["reference"]
            for one in urls.values()
            if one["resourceType"] != "Patient"
        ]
        assert set(subjects) == {patient}
        assert len(urls) == sum(entry["resource"]["resourceType"] != "Observation" for entry in before["entry"])


def test_check_lists_no_bundle_and_types_in_one_line_where_there_are_only_resources(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAM_MASKER_SECRET", "ab" * 32)
    resource = next(e["resource"] for e in ORIGINAL[1]["entry"] if e["resource"]["resourceType"] == "Condition")
    source = write(tmp_path / "resources.jsonl", [orjson.dumps(resource)])
    lines = run("config", "check", "-c", FOLDER / "stream-masker.yaml", "--events", source).stdout.splitlines()
    shown = [line.split()[0] for line in lines if "%" in line]
    assert "Condition.code.coding[*].code" in shown
    assert {"Bundle", "Claim", "Patient"} <= {*shown}
    assert not any(path.startswith(("Bundle.", "Claim.", "Patient.")) for path in shown)
