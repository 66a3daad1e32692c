"""The notebook of the documentation: it runs, shows what it promises, and holds no outputs of another run."""

from __future__ import annotations

import json
import re
import sys
import warnings

import pytest
from support.documentation import DOCS

sys.path.insert(0, str(DOCS))
from notebook_cells import NOTEBOOK, executed


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
    assert text.count('class="dataframe"') == 4
    assert text.count("<svg") == 1
    assert "An attacker who knows everything but the secret can be at most" in text
    assert "dispersions change by at most" in text
    assert len(re.findall(r"correlation (before|after) masking: 0\.\d{3}", text)) == 2


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
