"""The record masker with semantic noise, on the real discharges."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from support.data import discharges, icd9cm
from support.input_records import InputRecord, inputs

from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.core.ontology import UNKNOWN, ConceptMap
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import AttributePlan, Place, Plan
from stream_masker.pipeline.records import Masked, Rejected
from stream_masker.pipeline.style import Style, learned_styles
from tests.pipeline.conftest import field_policy

NAMES = ("diag_1", "diag_2")
MASKED = 5_000


class DischargeBench:
    """Discharges as events, a plan to mask two diagnoses, and a mechanism calibrated on these events."""

    def __init__(self) -> None:
        self.values = [orjson.dumps(row) for row in discharges()[:MASKED]]
        self.tau = icd9cm().taxonomy()
        self.concepts = ConceptMap(self.tau, unknown="ancestor")
        self.plan = Plan(
            attributes=tuple(
                AttributePlan(name=n, places=(Place(compile_path(n)),), concepts=self.concepts) for n in NAMES
            ),
            fields=field_policy("drop", keep=["age"], pseudonymize=["patient_nbr"]),
            configuration="0123456789abcdef",
            noise_key=compile_path("encounter_id"),
        )
        rule = {"alpha": 0.3, "reference": "pair", "rounding": "ceil", "candidates": "all"}
        self.mechanism = SemanticNoise(dict.fromkeys(NAMES, self.tau), seed=b"seed............", **rule)
        self.masker = RecordMasker(self.plan, self.mechanism, b"secret")
        self.sample = self.masker.count(self.values)
        statistics = self.mechanism.compute(self.sample.counts, version=1)
        self.mechanism.restore(self.mechanism.snapshot_of(statistics))
        self.masker.set_styles(learned_styles(NAMES, self.sample.styles, {}))

    def mask(self, first: int, last: int):
        records = [InputRecord(i, self.values[i]) for i in range(first, last)]
        return self.masker.mask("discharges", 0, inputs(records), statistics_version=1)


@pytest.fixture(scope="module")
def hospital():
    return DischargeBench()


def test_counts_of_events_give_the_statistics_of_the_pairs(hospital):
    found = [[hospital.concepts.find(row[name]).position for name in NAMES] for row in discharges()[:MASKED]]
    pairs = [hospital.tau.decode(np.array(pair)) for pair in found if min(pair) >= 0]
    first = sum(row["diag_1"] == "?" for row in discharges()[:MASKED])
    causes = {("unknown_code", "diag_1"): first, ("unknown_code", "diag_2"): MASKED - len(pairs) - first}
    assert hospital.sample.causes == causes
    hospital.mechanism.learn_many([dict(zip(NAMES, pair, strict=True)) for pair in pairs])
    before = hospital.mechanism.statistics
    hospital.mechanism.calibrate()
    assert hospital.mechanism.statistics.records == before.records == len(pairs)
    np.testing.assert_allclose(hospital.mechanism.statistics.covariance, before.covariance, rtol=1e-12)


def test_every_discharge_is_masked_or_rejected(hospital):
    rows = discharges()[:MASKED]
    result = hospital.mask(0, MASKED)
    for row, outcome in zip(rows, result.outcomes, strict=True):
        if isinstance(outcome, Rejected):
            assert "?" in (row["diag_1"], row["diag_2"])
            assert (outcome.reason, outcome.field) == ("unknown_code", "diag_1" if row["diag_1"] == "?" else "diag_2")
        else:
            check(hospital, row, orjson.loads(outcome.value))
    assert sum(block.masked.records for block in result.blocks) + len(result.rejected) == MASKED
    assert sum(block.distortions[0].values for block in result.blocks) == sum(
        isinstance(o, Masked) for o in result.outcomes
    )


def check(hospital, row, masked):
    """Check that ``ceil`` keeps no value, that each code has a concept, and that no unlisted field is left."""
    assert list(masked) == ["patient_nbr", "age", "diag_1", "diag_2"]
    assert masked["age"] == row["age"]
    assert masked["patient_nbr"] != row["patient_nbr"]
    for name in NAMES:
        before, after = hospital.concepts.find(row[name]), hospital.concepts.find(masked[name])
        assert after.position not in (UNKNOWN, before.position)
        assert not masked[name].startswith("0") or "-" in masked[name]


def test_codes_are_written_without_leading_zeros_as_most_are(hospital):
    style = Style(leading_zeros="remove")
    assert learned_styles(NAMES, hospital.sample.styles, {}) == dict.fromkeys(NAMES, style)
    assert sum(row["diag_1"].startswith("0") for row in discharges()) == 0


def test_a_replay_gives_identical_bytes_for_any_batch_size(hospital):
    whole = hospital.mask(0, 700).outcomes
    assert [o for first in range(0, 700, 70) for o in hospital.mask(first, first + 70).outcomes] == whole
    assert [hospital.mask(i, i + 1).outcomes[0] for i in range(0, 700, 100)] == whole[::100]
