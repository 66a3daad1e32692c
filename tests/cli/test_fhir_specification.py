"""The command ``mask`` on the examples of the FHIR R4 specification itself."""

from __future__ import annotations

import re

import orjson
import pytest
import yaml
from click.testing import CliRunner
from support import examples, synthea
from support.documents import named_scalars
from support.fhir_examples import specification_examples

from stream_masker.cli import main
from stream_masker.core.ontology import Ontology

pytestmark = pytest.mark.exhaustive

FOLDER = examples.FOLDER / "fhir-bundle"
LISTED = {"Patient", "Encounter", "Condition", "Claim", "ExplanationOfBenefit"}
SYSTEM = "http://hl7.org/fhir/sid/icd-10"
WITH_CODES = "claim-example-cms1500-medical.json"
"""The example with diagnoses of ICD-10."""

WITHOUT_CODES = "claim-example-oral-orthoplan.json"
"""An example whose code, 123457, is said to be of ICD-10."""

CONTAINED_OR_IDENTIFIED = {
    "claim-example-cms1500-medical.json",
    "claim-example-oral-contained-identifier.json",
    "claim-example-oral-contained.json",
    "claim-example-oral-identifier.json",
}
"""Claims whose patient is contained in them, or has an identifier but no reference."""

REFERENCE = re.compile(r"((urn:uuid:|[A-Z][A-Za-z]+/|#)?[0-9a-f-]{32,36})")
WRITTEN = ("reference", "id", "fullUrl")
PERSONAL = ("div", "family", "given", "text", "line", "city", "postalCode", "display", "comment", "disposition")


def run_mask(folder, **changes):
    """Mask the examples, and Bundles that give the first statistics; return the masked examples and the rejections."""
    events = [*specification_examples().values(), *synthea.bundles(120, seed=2)]
    (folder / "in.jsonl").write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in events))
    text = (FOLDER / "stream-masker.yaml").read_text()
    content = {**yaml.safe_load(text), "limits": {"rejected_share": 1}, **changes}
    (folder / "c.yaml").write_text(yaml.safe_dump(content))
    files = [folder / name for name in ("in.jsonl", "out.jsonl")]
    arguments = ["mask", "-c", folder / "c.yaml", "--rejected", folder / "rejected.jsonl", *files]
    done = CliRunner(env={examples.SECRET_VARIABLE: examples.SECRET}).invoke(main, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    names = list(specification_examples())
    rejected = [orjson.loads(line) for line in (folder / "rejected.jsonl").read_bytes().splitlines()]
    causes = {
        names[one["offset"] - 1]: (one["reason"], one.get("field")) for one in rejected if one["offset"] <= len(names)
    }
    written = [orjson.loads(line) for line in files[1].read_bytes().splitlines()]
    return dict(zip([name for name in names if name not in causes], written, strict=False)), causes


@pytest.fixture(scope="module")
def by_patient(tmp_path_factory):
    return run_mask(tmp_path_factory.mktemp("patient"))


def resources(one):
    return (
        [entry["resource"] for entry in one.get("entry", ()) if "resource" in entry]
        if one["resourceType"] == "Bundle"
        else [one]
    )


def test_examples_are_masked_or_rejected_for_want_of_one_patient(by_patient):
    masked, causes = by_patient
    assert set(causes.values()) == {("missing_noise_key", "patient"), ("several_patients", None)}
    original = specification_examples()
    single = {name for name in causes if original[name]["resourceType"] != "Bundle"}
    assert single == {*CONTAINED_OR_IDENTIFIED, "json-edge-cases.json"}
    kinds = [one["resourceType"] for one in masked.values()]
    assert {kind: kinds.count(kind) for kind in sorted(LISTED)} == {
        "Claim": 13,
        "Condition": 12,
        "Encounter": 10,
        "ExplanationOfBenefit": 2,
        "Patient": 22,
    }
    assert kinds.count("Bundle") > 10


def test_masked_examples_have_listed_resources_with_typed_pseudonyms_only(by_patient):
    masked, _ = by_patient
    original = specification_examples()
    for name, one in masked.items():
        assert one["resourceType"] == original[name]["resourceType"]
        assert {resource["resourceType"] for resource in resources(one)} <= LISTED
        kept = [resource for resource in resources(original[name]) if resource["resourceType"] in LISTED]
        assert len(resources(one)) == len(kept)
        assert [value for key, value in named_scalars(one) if key in WRITTEN and not REFERENCE.fullmatch(value)] == []


def test_no_text_about_a_person_is_left(by_patient):
    masked, _ = by_patient
    original, seen = specification_examples(), set()
    for name, one in masked.items():
        left = {value for key, value in named_scalars(resources(one)) if isinstance(value, str) and key in PERSONAL}
        raw = {value for key, value in named_scalars(original[name]) if isinstance(value, str) and key in PERSONAL}
        assert left & raw == set(), name
        seen |= raw
    assert len(seen) > 100


def test_diagnoses_of_the_specification_are_masked(tmp_path):
    text = (FOLDER / "stream-masker.yaml").read_text().replace("sid/icd-10-cm", "sid/icd-10")
    attributes = yaml.safe_load(text)["attributes"]
    attributes["diagnosis"]["unknown"] = "ancestor"
    synthetic = synthea.ICD
    assert synthetic == f"{SYSTEM}-cm"
    attributes["diagnosis"]["also"].append(f"Condition.code.coding[*?system={synthetic}].code")
    fields = {key: value for key, value in yaml.safe_load(text)["fields"].items() if key != "shift"}
    masked, causes = run_mask(tmp_path, attributes=attributes, fields=fields, noise_key="position")
    assert {name: reason for name, (reason, _) in causes.items()} == {WITHOUT_CODES: "unknown_code"}
    icd = Ontology.load("icd10cm")
    before, after = diagnoses(specification_examples()[WITH_CODES]), diagnoses(masked[WITH_CODES])
    assert len(before) == len(after) > 3
    assert all(one["code"] in icd and one["display"] == icd.label(one["code"]) for one in after)
    assert [one["code"] for one in before] != [one["code"] for one in after]


def diagnoses(claim):
    codings = [one["diagnosisCodeableConcept"]["coding"] for one in claim["diagnosis"]]
    return [coding for found in codings for coding in found if coding["system"] == SYSTEM]
