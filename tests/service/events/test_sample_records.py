"""Sample records: the record masker accepts them for any paths of a configuration."""

import orjson
import pytest
import yaml
from support.small_configuration import write_secret

from stream_masker.pipeline.masker import RecordMasker
from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.runtime.warmup import RECORDS_OF_A_CODE, sample_records

ICD = "coding[?system=http://hl7.org/fhir/sid/icd-10-cm]"
ATTRIBUTES = {
    "flat": {"a": {"path": "a"}, "b": {"path": "b"}},
    "nested": {
        "a": {"path": "x.main.code", "label": "x.main.text", "copies": ["billing['main.code']"]},
        "b": {"path": "x.others[*].code", "label": "x.others[*].text"},
    },
    "filters": {
        "a": {"path": f"reason[0].{ICD}.code", "label": f"reason[0].{ICD}.display"},
        "b": {"path": f"contained[*].code.{ICD}.code"},
    },
    "several filters": {
        "a": {"path": "codes[?use.kind=main].code"},
        "b": {"path": "codes[?use.kind=other].code", "copies": ["codes[?use.kind='third'].code"]},
    },
    "elements": {"a": {"path": "codes[0]"}, "b": {"path": "codes[3]"}},
    "alpha in the record": {
        "a": {"path": "a", "alpha": {"path": "privacy.alpha", "default": 0.3}},
        "b": {"path": "b", "alpha": {"path": "privacy.alpha", "default": 0.3}},
    },
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_all_sample_records_are_accepted(tmp_path, name):
    rows = "".join(f"c{k},c{(k - 1) // 3},label\n" for k in range(1, 60))
    (tmp_path / "tree.csv").write_text(f"concept,parent,label\n{rows}")
    write_secret(tmp_path)
    content = {
        "ontologies": {"tree": {"source": "tree.csv"}},
        "attributes": {a: {"ontology": "tree", **more} for a, more in ATTRIBUTES[name].items()},
        "fields": {
            "keep": ["id", "stay.days"],
            "drop": ["names[*].given"],
            "pseudonymize": ["who"],
            "unlisted": "drop",
        },
        "noise_key": "who",
        "secret": {"file": "secret"},
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(content))
    configuration = load_configuration(tmp_path / "c.yaml", {})
    plan, mechanism = build_plan(configuration), build_mechanism(configuration)
    records = sample_records(plan, 40 * RECORDS_OF_A_CODE)
    sample = RecordMasker(plan, mechanism, b"0123456789abcdef").count(records)
    assert (sample.counts.records, sample.rejected) == (len(records), {})
    assert min(len(column.keys) for column in sample.counts.values) >= 20
    assert min(column.units.min() for column in sample.counts.values) >= 2
    assert {"id", "stay", "names", "who"} <= orjson.loads(records[0]).keys()
