"""The limits of the risk: the default stays within them on real data, and the papers' rule crosses them on leaves."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from support.data import icd9cm
from support.real_codes import real_pairs

from stream_masker import Ontology, SemanticNoise
from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.statistics import count_batch
from stream_masker.pipeline.risk import RiskLimits, assess_version
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.demo.processes import demo_configuration
from stream_masker.service.events.synthetic import SyntheticDischarges

RECORDS = 2_000
EVENTS = SyntheticDischarges(parse_configuration(yaml.safe_load(demo_configuration("localhost", 20_000))), seed=17)


def real():
    codes = real_pairs()[:, :RECORDS]
    return icd9cm().taxonomy(), [Column(np.ascontiguousarray(row)) for row in codes]


def leaves():
    """Generated events with codes of ICD-10-CM: the principal diagnosis, and the first secondary one."""
    tau = Ontology.load("icd10cm").taxonomy()
    events = EVENTS.events(RECORDS)
    diagnoses = [event["diagnoses"] for event in events]
    pairs = zip(*((d["principal"]["code"], d["secondary"][0]["code"]) for d in diagnoses), strict=True)
    return tau, [Column(tau.encode(codes)) for codes in pairs]


def lists():
    """Generated events with all of their secondary diagnoses, as many as the README publishes."""
    tau = Ontology.load("icd10cm").taxonomy()
    events = EVENTS.events(20_000)
    diagnoses = [event["diagnoses"] for event in events]
    lengths = np.array([len(d["secondary"]) for d in diagnoses])
    secondary = tau.encode([each["code"] for d in diagnoses for each in d["secondary"]])
    principal = tau.encode([d["principal"]["code"] for d in diagnoses])
    return tau, [Column(principal), Column(secondary, offsets_from_lengths(lengths))]


@pytest.mark.parametrize(
    ("window", "preset", "crosses"),
    [
        (real, None, False),
        (leaves, None, False),
        (leaves, "paper", True),
        pytest.param(lists, None, False, marks=pytest.mark.scheduled),
    ],
)
def test_alerts_are_quiet_for_the_default_and_not_for_the_papers_rule_on_leaves(window, preset, crosses):
    tau, columns = window()
    counts = count_batch(Batch(columns[0].codes.size, tuple(columns)), [len(tau)] * 2)
    noise = SemanticNoise({"a": tau, "b": tau}, preset=preset, seed=b"sixteen bytes or more")
    found = assess_version(noise, noise.compute(counts, version=1), counts, RiskLimits())
    assert bool(found.crossed) == crosses
