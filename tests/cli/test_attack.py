"""What the commands say of an attacker, against one who has the files without the secret and the law of the events."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import orjson
import pytest
import yaml
from file_commands import run
from support.data import data_file, icd9cm
from support.real_codes import real_codes
from support.stream_attack import Attack

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.events.simulate import SimulationOptions

SAID = re.compile(r"at most (\d+)% sure of a code.*? a code is right in (\d+)% of the cases")
FEWEST = 200
"""The least number of guesses whose share of right ones is compared with the promise."""

CONFIGURATION: dict[str, Any] = {
    "attributes": {
        "principal": {"path": "diagnoses.principal.code", "ontology": "icd"},
        "secondary": {"path": "diagnoses.secondary[*].code", "ontology": "icd"},
    },
    "fields": {"keep": ["encounter_id"], "pseudonymize": ["patient.id"], "unlisted": "drop"},
    "noise_key": "patient.id",
    "secret": {"file": "secret"},
}


def generated(records):
    """The events of the README."""
    configuration = {**CONFIGURATION, "ontologies": {"icd": {"source": "icd10cm"}}}
    options = SimulationOptions(records=records, seed=17)
    return configuration, list(options.events(parse_configuration(configuration)))


def real(records, most):
    """Real discharges: a principal diagnosis, and 1 to ``most`` secondary ones of discharges with the same one."""
    tau, codes = icd9cm().taxonomy(), real_codes(("diag_1", "diag_2"))
    rng = np.random.default_rng(6)
    first, second = codes[:, np.lexsort((rng.random(codes.shape[1]), codes[0]))]
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, most + 1, first.size))])
    chosen = rng.permutation(np.flatnonzero(starts[1:] <= first.size))[:records]
    events = []
    for k in chosen.tolist():
        elements = [{"code": code} for code in tau.decode(second[starts[k] : starts[k + 1]])]
        diagnoses = {"principal": {"code": tau.ids[int(first[starts[k]])]}, "secondary": elements}
        events.append({"encounter_id": f"e{k}", "patient": {"id": f"p{k}"}, "diagnoses": diagnoses})
    return {**CONFIGURATION, "ontologies": {"icd": {"source": str(data_file("icd9cm-diagnoses.csv.gz"))}}}, events


def real_lists(records):
    """Real discharges with their second and third diagnosis as a list."""
    tau, events = icd9cm().taxonomy(), []
    for k, codes in enumerate(real_codes(("diag_1", "diag_2", "diag_3"))[:, :records].T):
        first, *others = ({"code": code} for code in tau.decode(codes))
        diagnoses = {"principal": first, "secondary": others}
        events.append({"encounter_id": f"e{k}", "patient": {"id": f"p{k}"}, "diagnoses": diagnoses})
    return real(1, 1)[0], events


def records_of(events):
    """The codes of events, by attribute."""
    return [
        {
            "principal": event["diagnoses"]["principal"]["code"],
            "secondary": [element["code"] for element in event["diagnoses"]["secondary"]],
        }
        for event in events
    ]


CASES = {
    "the README's events": (lambda: generated(5_000), 8),
    "1,000 events of the README": (lambda: generated(1_000), 30),
    "1,000 real discharges": (lambda: real(1_000, 1), 30),
    "real discharges": (lambda: real(100_000, 1), 6),
    "real discharges with up to 8 secondary diagnoses": (lambda: real(20_000, 8), 8),
    "real discharges with two secondary diagnoses": (lambda: real_lists(30_000), 10),
}


@pytest.mark.parametrize(
    "case", [case if case.startswith("1,000") else pytest.param(case, marks=pytest.mark.scheduled) for case in CASES]
)
def test_no_attacker_is_right_more_often_or_surer_than_the_commands_say(tmp_path, case):
    """Averages over records, and the surest guesses, within three standard errors of what ``calibrate`` says."""
    make, repeats = CASES[case]
    configuration, events = make()
    (tmp_path / "secret").write_bytes(b"0123456789abcdef0123456789abcdef")
    (tmp_path / "secret").chmod(0o600)
    settings, snapshot = tmp_path / "stream-masker.yaml", tmp_path / "snapshot.json"
    settings.write_text(yaml.safe_dump({**configuration, "calibration": {"window_records": len(events)}}))
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(map(orjson.dumps, events)))
    said = SAID.search(run("calibrate", "-c", settings, "-o", snapshot, tmp_path / "events.jsonl").output)
    assert said is not None
    promise, chance = (int(figure) / 100 for figure in said.groups())
    run("mask", "-c", settings, "--statistics", snapshot, tmp_path / "events.jsonl", tmp_path / "masked.jsonl")
    masked = [orjson.loads(line) for line in (tmp_path / "masked.jsonl").read_bytes().splitlines()]
    attack = Attack(settings, snapshot, records_of(events), repeats=repeats)
    guessed, truth = attack.guess(records_of(masked)), attack.codes(records_of(events))
    for guesses, own in zip(guessed, truth, strict=True):
        right = guesses.values == own
        surest = right[guesses.shares >= np.sort(guesses.shares)[-FEWEST]]
        assert right.mean() <= chance + 0.005 + 3.0 * np.sqrt(0.25 / right.size)
        assert surest.mean() <= promise + 3.0 * np.sqrt(0.25 / surest.size)
        assert right.mean() > 0.3 * chance
