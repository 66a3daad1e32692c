"""The notebook of the documentation, executed: its cells as Markdown, with what they print and show."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent / "notebook" / "first-masks.ipynb"


@cache
def executed(path: Path = NOTEBOOK) -> str:
    """Return the cells of a notebook as Markdown, each with its output; they run once, in the notebook's folder."""
    names: dict[str, Any] = {}
    with contextlib.chdir(path.parent), _narrow_tables():
        return "\n\n".join(part for cell in json.loads(path.read_text())["cells"] for part in _shown(cell, names))


@contextlib.contextmanager
def _narrow_tables() -> Iterator[None]:
    """Let pandas take the width of a page, whatever the terminal's is."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        yield
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)


def _shown(cell: dict[str, Any], names: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source.replace("## ", "### ")
        return
    yield f"```python\n{source}\n```"
    printed, value = _run(source, names)
    if printed:
        yield f"```text\n{printed.rstrip()}\n```"
    if value is not None:
        render = getattr(value, "_repr_html_", None)
        yield f"```text\n{value!r}\n```" if render is None else f'<div class="output">{_one_line(render())}</div>'


def _run(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell; return what it prints, and the value of its last line if that is an expression."""
    tree, last = ast.parse(source), None
    if isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(NOTEBOOK), "exec"), names)  # noqa: S102 - our own notebook
        value = None if last is None else eval(compile(last, str(NOTEBOOK), "eval"), names)  # noqa: S307
    return printed.getvalue(), value


def _one_line(html: str) -> str:
    """Return HTML without line breaks, which Markdown would take for its own."""
    return "".join(line.strip() for line in html.splitlines())
