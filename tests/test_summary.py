"""The three sentences about masked records."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stream_masker
from stream_masker import Ontology, SemanticTransport
from stream_masker.summary import three_sentences

TAU = Ontology.from_edges([(f"c{k}", f"g{k // 3}") for k in range(9)] + [(f"g{k}", "r") for k in range(3)]).taxonomy()


def calibrated(**attributes):
    mechanism = SemanticTransport(attributes, target={"alpha": 1.0}, seed=b"a seed of sixteen")
    mechanism.learn_many([{name: f"c{k * step % 9}" for step, name in enumerate(attributes, 1)} for k in range(90)])
    mechanism.calibrate()
    return mechanism


def test_one_attribute():
    mechanism = calibrated(code=TAU)
    risk = mechanism.risk()
    learned, stays, kept = three_sentences(risk, preserves=("mean", "dispersion"))
    assert learned == (
        f"An attacker's best guess of a code is right in up to {risk.vulnerability['code']:.0%} of the cases "
        f"(11% without masks), and that of its chapter in up to {risk.meaning['code'].levels['chapter'].chance:.0%} "
        "of the cases (33% without masks)."
    )
    assert stays.startswith(f"{risk.unchanged['code']:.0%} of the codes of code")
    assert kept == "Kept in expectation: mean and dispersion."


def test_figures_that_were_measured_take_the_place_of_expected_ones():
    mechanism = calibrated(first=TAU, second=TAU)
    statistics = mechanism.statistics
    _, stays, kept = three_sentences(
        mechanism.risk(),
        unchanged={"first": 0.25, "second": 0.5},
        unchanged_records=0.125,
        before=statistics,
        after=statistics,
    )
    assert stays == "25% of the codes of first, 50% of the codes of second and 12% of the records stay as they were."
    assert kept == (
        "Every mean stays the same concept, dispersions change by at most 0.000 and correlations by at most 0.000."
    )


def test_what_is_not_known_is_said():
    assert three_sentences(None) == (
        "What an attacker can learn from the masks is not known.",
        "How many codes stay as they were is not known.",
        "What is kept is not known.",
    )


def test_the_package_has_the_eight_names_that_people_need():
    assert dir(stream_masker) == sorted([*stream_masker.__all__, "__version__"])
    assert len(stream_masker.__all__) == 8
    assert all(getattr(stream_masker, name).__name__ == name for name in stream_masker.__all__)


def test_importing_the_package_imports_no_module_of_it():
    code = "import sys, stream_masker; print([name for name in sys.modules if name.startswith('stream_masker.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("module", ["distances", "mechanisms", "ontologies", "statistics"])
def test_named_modules_have_the_rest(module):
    found = __import__(f"stream_masker.{module}", fromlist=["__all__"])
    assert [getattr(stream_masker, name) is getattr(found, name) for name in found.__all__] == [True] * len(
        found.__all__
    )


def test_an_unknown_name_is_an_error_that_has_the_known_ones():
    with pytest.raises(AttributeError, match="has no attribute 'Masker': it has FrameMasker, Numeric, "):
        _ = stream_masker.Masker
