"""The notebook of the documentation: it runs, shows what it promises, and holds no outputs of another run."""

from __future__ import annotations

import json
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


def test_the_notebook_is_stored_without_outputs():
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
