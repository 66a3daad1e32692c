"""The figures of the page *The promise in figures*, and what it and the page on methods say of them."""

from __future__ import annotations

import sys

import pytest
from support.documentation import DOCS, ROOT

sys.path.append(str(ROOT / "tests" / "benchmarks"))

import bench_context
import bench_promise
from support.data import discharges
from support.documented import Configuration
from support.kept_fields import FIELDS
from support.real_codes import as_batch, real_codes, real_rows

PAGE = (DOCS / "promise.md").read_text()
CLOSE = 0.012
"""The difference up to which a figure is the one that is shown: the model of another build differs by so much."""


def row(first: str) -> list[float]:
    """The figures of the row of a table that begins with a cell."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {first} |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")[1:]]
    return [float(cell) for cell in cells if cell.replace(".", "").isdigit()]


def rare(value):
    """A row of the scheduled run."""
    return pytest.param(value, marks=pytest.mark.scheduled)


@pytest.mark.exhaustive
@pytest.mark.parametrize("least", [rare(1), 2, rare(3), rare(5)])
def test_what_rare_pairs_tell(least):
    assert bench_promise.least_figures(least) == pytest.approx(row(str(least)), abs=CLOSE)


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [rare(300), 1_000, rare(10_000), rare(100_000)])
def test_small_windows(size):
    assert bench_promise.window_figures(size) == pytest.approx(row(f"{size:,}"), abs=CLOSE)


@pytest.mark.scheduled
def test_pairs_that_are_not_linked():
    for label, *figures in bench_promise.unlinked_rows():
        assert figures == pytest.approx(row(str(label)), abs=CLOSE)


@pytest.mark.scheduled
def test_kept_fields():
    """Guesses of fewer records than the page has, as learned from other patients."""
    rows = [discharges()[k] for k in real_rows(bench_promise.PAIR)]
    _, masks, both, fields, error = bench_promise.fields_figures(rows, FIELDS, 5_000)
    assert [masks, both, fields] == pytest.approx(row(", ".join(f"`{name}`" for name in FIELDS)), abs=CLOSE + error)


def test_the_least_number_of_records_is_the_default():
    text = " ".join(PAGE.split())
    default = Configuration.model_fields["calibration"].annotation.model_fields["min_records"].default
    share = row(f"{default:,}")[-1]
    assert f"`calibration.min_records` is {default:,} because" in text
    assert (
        f"{100 * share:.0f} % of later codes are new, of which a window of 300 lacks {100 * row('300')[-1]:.0f} %"
        in text
    )
    assert (
        f"`least` is the number of different patients that a pair of the window needs to be written; {2} by default"
        in text
    )


@pytest.mark.exhaustive
def test_a_masking_that_does_not_read_readmission_cannot_keep_its_relation_to_codes():
    """It leaves less than the original area without its standard error, on average."""
    rows = bench_context.real(200_000)
    left, original = bench_context.most_learned(rows, bench_context.CHANCES)
    text = " ".join((DOCS / "methods" / "semantic-transport.md").read_text().split())
    assert "(chapter {:.2f}, block {:.2f}, code {:.2f})".format(*bench_context.CHANCES) in text
    assert f"an area of {left:.3f}" in text
    readmitted = bench_context.readmitted(rows)[1::2]
    assert left < original - (original * (1.0 - original) / readmitted.sum()) ** 0.5
    half, _ = bench_context.most_learned(rows, (0.71,) * 3)
    assert f"Chances of 0.71 would leave {half:.3f}" in text


@pytest.mark.scheduled
def test_the_least_chance_of_any_method():
    codes = real_codes(bench_promise.PAIR)
    made = bench_promise.calibrated(as_batch(codes))
    told, own = made.disclosure(), made.risk(draws=1).value["diag_1"].vulnerability
    text = " ".join((DOCS / "mathematics.md").read_text().split())
    assert f"{codes.shape[1]:,} real discharges" in text
    assert f"right in {own:.3f} by its own mask and in {told.given_record['diag_1']:.3f} by both masks" in text
    assert f"leaves less than {told.least['diag_1']:.3f}" in text
