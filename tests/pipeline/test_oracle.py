"""What a producer learns who sends records of their own and reads how they are masked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import starmap
from pathlib import Path
from random import Random

import orjson
import pytest
from support.results import InputRecord, Masked, inputs, outcomes
from support.small_configuration import write_small

from stream_masker.pipeline.versions import put_in_force
from stream_masker.service.configuration import load_configuration
from stream_masker.service.files import FileEvent
from stream_masker.service.files.masking import FileMasking
from stream_masker.service.masking import Masking

SECRET = b"the secret of all deployments"
CODES = [f"{chapter}{leaf}" for chapter in "ABCDEF" for leaf in range(10)]
VICTIMS = 30


def deployment(folder: Path, topic: str, rounding: str) -> Masking:
    """Return the masking of a deployment, with statistics of equally frequent codes."""
    rows = ["concept,parent", "R,", *(f"{chapter},R" for chapter in "ABCDEF"), *(f"{c},{c[0]}" for c in CODES)]
    noise = {"name": "semantic_noise", "reference": "mean", "correlated": False, "candidates": "leaves"}
    path = write_small(
        folder,
        rows="\n".join(rows) + "\n",
        secret=SECRET,
        file=f"{topic}.yaml",
        topics={"input": topic},
        attributes={"code": {"path": "code", "ontology": "small", "alpha": 1.0}},
        mechanism={**noise, "rounding": rounding},
        fields={"pseudonymize": ["patient"], "unlisted": "drop"},
        noise_key="patient",
        calibration={"min_records": 10},
    )
    configuration = load_configuration(path, {})
    window = (orjson.dumps({"code": code, "patient": "nobody"}) for code in CODES)
    masking = Masking(configuration)
    put_in_force(FileMasking(configuration).snapshot(starmap(FileEvent, enumerate(window))), masking.mechanism)
    return masking


def masks(masking: Masking, events: list[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the masked events, at offsets of their own."""
    records = [InputRecord(offset, orjson.dumps(event)) for offset, event in enumerate(events)]
    topic = masking.configuration.topics.input
    written = outcomes(masking.masker.mask(topic, 0, inputs(records), statistics_version=1))
    assert all(isinstance(outcome, Masked) for outcome in written)
    return [orjson.loads(outcome.value or b"") for outcome in written]


def right_guesses(victim: Masking, oracle: Masking) -> float:
    """Return the expected number of right guesses of the victims' codes.

    The attacker sends every code under a victim's id to the topic of ``oracle``, and guesses among the codes with the
    victim's mask; without such a code, the mask itself.
    """
    random, right = Random(1), 0.0
    for number in range(VICTIMS):
        patient, code = f"p{number}", random.choice(CODES)
        (seen,) = masks(victim, [{"code": code, "patient": patient}])
        tried = masks(oracle, [{"code": guess, "patient": patient} for guess in CODES])
        same = [guess for guess, mask in zip(CODES, tried, strict=True) if mask["code"] == seen["code"]]
        right += (code in same) / len(same) if same else code == seen["code"]
    return right


@pytest.mark.parametrize("rounding", ["calibrated", "ceil"])
def test_only_a_producer_of_the_same_topic_is_an_oracle(tmp_path: Path, rounding: str) -> None:
    """Each topic has a noise of its own. Brokers do not tell who has produced a record: the threat model says so."""
    deployed, other = (deployment(tmp_path, topic, rounding) for topic in ("hospital", "attacker"))
    assert right_guesses(deployed, deployed) > 0.5 * VICTIMS
    assert right_guesses(deployed, other) < 0.3 * VICTIMS


def test_pseudonyms_of_another_topic_are_independent(tmp_path: Path) -> None:
    events = [{"code": CODES[0], "patient": f"p{number}"} for number in range(50)]
    written = [masks(deployment(tmp_path, topic, "ceil"), events) for topic in ("one", "two")]
    pseudonyms = Counter(event["patient"] for of_topic in written for event in of_topic)
    assert set(pseudonyms.values()) == {1}
