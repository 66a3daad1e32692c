"""The notebook of the documentation: it runs, shows what it promises, and holds no outputs of another run."""

from __future__ import annotations

import csv
import json
import re
import sys
import warnings
from pathlib import Path

import pytest
from support import data
from support.documentation import DOCS, ROOT

sys.path.insert(0, str(DOCS))
from notebook_cells import NOTEBOOK, executed

from stream_masker.summary import ATTACKER


@pytest.mark.exhaustive
def test_the_notebook_runs_and_shows_tables_and_a_plot():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = executed()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Load",
        "## Choose",
        "## Mask",
        "## Compare",
        "## Plot",
    ]
    assert not any(str(path) in text for path in (Path.home(), ROOT))
    assert text.count('class="dataframe"') == 5
    assert text.count("<svg") == 1
    assert f"{ATTACKER} can be at most" in text
    assert "dispersions change by at most" in text
    cells = re.findall(r"<td>([\d.]+)</td>", text[text.index("correlation after</th>") :])[:15]
    sizes, before, after = cells[0::5], [float(cell) for cell in cells[3::5]], [float(cell) for cell in cells[4::5]]
    assert [float(size) for size in sizes] == [500, 1_500, 5_000]
    changes = [new - old for old, new in zip(before, after, strict=True)]
    assert changes == sorted(changes, reverse=True)
    assert abs(changes[-1]) < 0.05


def test_the_discharges_of_the_notebook_are_real():
    real = {row["encounter_id"]: row for row in data.discharges()}
    with (NOTEBOOK.parent / "discharges.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 5_000
    names = {"patient": "patient_nbr", "days": "time_in_hospital", "readmitted": "readmitted"}
    for row in rows:
        assert [row[ours] for ours in names] == [real[row["encounter"]][theirs] for theirs in names.values()]
        assert [row["principal"].lstrip("0"), row["secondary"].lstrip("0")] == [
            real[row["encounter"]][name].lstrip("0") for name in ("diag_1", "diag_2")
        ]


def test_the_notebook_is_stored_without_outputs():
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)


def test_no_line_of_code_is_wider_than_the_page():
    """80 characters are what the page shows at 1,280 pixels without scrolling."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    lines = "".join("".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code").splitlines()
    assert [line for line in lines if len(line) > 80] == []
