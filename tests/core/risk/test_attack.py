"""What the commands say of an attacker, against one who has the files without the secret and the law of the events."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import orjson
import pytest
import yaml
from support.data import data_file, icd9cm
from support.documentation import DOCS
from support.file_commands import run
from support.real_codes import real_codes
from support.small_configuration import write_secret

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.events.synthetic import SyntheticDischarges
from tests.core.risk.stream_attack import Deployment, law_guesses, list_guesses

SAID = re.compile(r"at most (\d+)% sure of a code.*? a code is right in (\d+)% of the cases")
SUREST = 0.04
"""The share of the surest guesses, whose share of right ones is compared with the promise."""

CONFIGURATION: dict[str, Any] = {
    "attributes": {
        "principal": {"path": "diagnoses.principal.code", "ontology": "icd"},
        "secondary": {"path": "diagnoses.secondary[*].code", "ontology": "icd"},
    },
    "fields": {"keep": ["encounter_id"], "pseudonymize": ["patient.id"], "unlisted": "drop"},
    "noise_key": "patient.id",
    "mechanism": {"name": "semantic_transport"},
    "secret": {"file": "secret"},
}


def generated(records):
    """The events of the README."""
    configuration = {**CONFIGURATION, "ontologies": {"icd": {"source": "icd10cm"}}}
    discharges = SyntheticDischarges(parse_configuration(configuration), seed=17)
    return configuration, list(discharges.events(records))


def real(records, most):
    """Real discharges: a principal diagnosis, and 1 to ``most`` secondary ones of discharges with the same one.

    As in real events, none has a secondary code twice.
    """
    tau, codes = icd9cm().taxonomy(), real_codes(("diag_1", "diag_2"))
    rng = np.random.default_rng(6)
    first, second = codes[:, np.lexsort((rng.random(codes.shape[1]), codes[0]))]
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, most + 1, first.size))])
    chosen = rng.permutation(np.flatnonzero(starts[1:] <= first.size))[:records]
    events = []
    for k in chosen.tolist():
        elements = [{"code": code} for code in dict.fromkeys(tau.decode(second[starts[k] : starts[k + 1]]))]
        diagnoses = {"principal": {"code": tau.ids[int(first[starts[k]])]}, "secondary": elements}
        events.append({"encounter_id": f"e{k}", "patient": {"id": f"p{k}"}, "diagnoses": diagnoses})
    return {**CONFIGURATION, "ontologies": {"icd": {"source": str(data_file("icd9cm-diagnoses.csv.gz"))}}}, events


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
    "1,000 events of the README": (lambda: generated(1_000), 60, 40),
    "1,000 real discharges": (lambda: real(1_000, 1), 60, 40),
    "3,000 real discharges": (lambda: real(3_000, 8), 60, 20),
}
"""The events, how often the attacker masks them to learn, and under how many secrets he guesses."""

TRIED = 1_000
"""The number of masked events that an attacker compares with all events."""


@pytest.mark.usefixtures("no_comparison")
@pytest.mark.parametrize(
    "case",
    ["1,000 real discharges", *(pytest.param(case, marks=pytest.mark.scheduled) for case in list(CASES)[::2])],
)
def test_no_attacker_is_right_more_often_or_surer_than_the_commands_say(tmp_path, case):
    """Within one standard error of so many guesses that it is small beside the distance to what is said.

    The principal code is guessed once for each event: the law of scalars counts an event once, however many elements
    it has. Guesses counted by element would weigh events with many elements more, of which the number tells.
    """
    make, repeats, secrets = CASES[case]
    configuration, events = make()
    promise, chance, deployment, written = deployed(tmp_path, configuration, events)
    batch = deployment.encode(records_of(events))
    masked = [deployment.masked(batch, b"another secret %d of many bytes" % number) for number in range(1, secrets)]
    guessed = law_guesses(deployment, batch, (deployment.encode(written), *masked), repeats=repeats)
    columns = []
    for guesses, exact in zip(guessed, deployment.said, strict=True):
        right, surest = right_of(guesses)
        assert exact <= chance + 0.005 + 0.005  # rounded to a percent
        assert right.mean() <= exact + standard_error(right)
        assert surest.mean() <= promise + standard_error(surest)
        assert right.mean() > 0.8 * exact
        columns.append((exact, right.mean(), surest.mean()))
    tried = np.random.default_rng(0).permutation(batch.size)[:TRIED]
    listed = list_guesses(deployment, batch, masked[0], tried)
    half = listed.right[listed.shares >= np.median(listed.shares)]
    figures = [*np.array(columns).T.ravel(), listed.right.mean(), half.mean()]
    assert figures == pytest.approx(shown(case), abs=0.03)


def right_of(guesses):
    """Whether each guess of several trials is right, and each of the surest ones."""
    right, shares = (np.concatenate(each) for each in zip(*((one.right, one.shares) for one in guesses), strict=True))
    return right, right[shares >= np.quantile(shares, 1.0 - SUREST)]


def shown(case):
    """The figures of the row of a case on the page *Security*."""
    (line,) = [line for line in (DOCS / "security.md").read_text().splitlines() if line.startswith(f"| {case} |")]
    return [float(figure) for figure in re.findall(r"\d\.\d+", "|".join(line.split("|")[3:]))]


def deployed(folder, configuration, events):
    """Calibrate and mask events: what is promised and said, what an attacker reads, and the masked events' codes."""
    write_secret(folder, content=b"0123456789abcdef0123456789abcdef")
    settings, snapshot = folder / "stream-masker.yaml", folder / "snapshot.json"
    settings.write_text(yaml.safe_dump({**configuration, "calibration": {"window_records": len(events)}}))
    (folder / "events.jsonl").write_bytes(b"\n".join(map(orjson.dumps, events)))
    said = SAID.search(run("calibrate", "-c", settings, "-o", snapshot, folder / "events.jsonl").output)
    assert said is not None
    run("mask", "-c", settings, "--statistics", snapshot, folder / "events.jsonl", folder / "masked.jsonl")
    masked = [orjson.loads(line) for line in (folder / "masked.jsonl").read_bytes().splitlines()]
    promise, chance = (int(figure) / 100 for figure in said.groups())
    return promise, chance, Deployment(settings, snapshot, records_of(events)), records_of(masked)


def standard_error(right):
    return right.std() / np.sqrt(right.size)
