"""The three sentences about masked records."""

from __future__ import annotations

import subprocess
import sys
from math import ceil

import pytest

import stream_masker
from stream_masker import Ontology, SemanticTransport
from stream_masker.summary import ATTACKER, three_sentences, unchanged_warning

TAU = Ontology.from_edges([(f"c{k}", f"g{k // 3}") for k in range(9)] + [(f"g{k}", "r") for k in range(3)]).taxonomy()


def calibrated(**attributes):
    mechanism = SemanticTransport(attributes, certainty=1.0, seed=b"a seed of sixteen")
    mechanism.learn_many([{name: f"c{k * step % 9}" for step, name in enumerate(attributes, 1)} for k in range(90)])
    mechanism.calibrate()
    return mechanism


def test_one_attribute():
    mechanism = calibrated(code=TAU)
    risk = mechanism.risk()
    learned, stays, kept = three_sentences(risk, promise=0.5, preserves=("mean", "dispersion"))
    code = risk.record["code"]
    chapter = code.levels["chapter"]
    assert learned == (
        f"{ATTACKER} can be at most "
        f"{ceil(100 * code.greatest)}% sure of a code and {ceil(100 * chapter.greatest)}% of "
        f"its chapter; the best guess of a code is right in {code.vulnerability:.0%} of the cases (11% without masks), "
        f"and that of its chapter in {chapter.vulnerability:.0%} of the cases (33% without masks)."
    )
    assert stays.startswith(f"{risk.unchanged['code']:.0%} of the codes of code")
    assert kept == "Kept in expectation: mean and dispersion."


def test_the_promise_is_said_without_the_other_figures():
    assert three_sentences(None, promise=0.5)[0] == (
        f"{ATTACKER} can be at most 50% sure of a code, unless it is more "
        "frequent; how often guesses are right is known where the statistics were computed."
    )
    assert calibrated(code=TAU).promise is None
    assert SemanticTransport({"code": TAU}, seed=b"a seed of sixteen").promise == 0.5


@pytest.mark.parametrize(("alpha", "finds"), [(0.2, True), (1.0, False)])
def test_certain_has_one_definition(alpha, finds):
    """The share of records whose best guess is right with a probability above 0.9, of all that is reported."""
    mechanism = SemanticTransport({"code": TAU}, alpha=alpha, certainty=1.0, seed=b"a seed of sixteen")
    mechanism.learn_many([{"code": f"c{k % 9}"} for k in range(90)] + [{"code": "c0"}] * 200)
    mechanism.calibrate()
    risk = mechanism.risk()
    told = risk.record["code"]
    assert (risk.value["code"].certain > 0.0) == (told.certain > 0.0) == (told.greatest > 0.9) == finds


def test_a_warning_is_given_above_one_half():
    assert unchanged_warning(0.5, "semantic_noise") is None
    assert "semantic_noise leaves 51% of the records as they were" in unchanged_warning(0.506, "semantic_noise")


def test_the_package_has_the_names_that_people_need():
    assert dir(stream_masker) == sorted([*stream_masker.__all__, "__version__"])
    assert all(getattr(stream_masker, name, None) is not None for name in stream_masker.__all__)


def test_importing_the_package_imports_no_module_of_it():
    code = "import sys, stream_masker; print([name for name in sys.modules if name.startswith('stream_masker.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
