"""``stream-masker reproduce``: the tables of a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stream_masker.cli.options import ReportingCommand, information, output, summarise
from stream_masker.evaluation.papers.reproduction import PAPERS, reproduction
from stream_masker.evaluation.report.page import ReportSection, ReportTable, html_page
from stream_masker.service.files import outputs
from stream_masker.service.observability.progress import shown_activity


@click.command(cls=ReportingCommand)
@click.option("--data", type=click.Path(path_type=Path), metavar="FILE", help="The mushroom data set (CSV), for 2012.")
@click.option(
    "-o", "--output", "page", default="", metavar="FILE", help="File for an HTML page; default: Markdown on the screen."
)
@click.argument("paper", type=click.Choice(list(PAPERS)))
def command(data: Path | None, page: str, paper: str) -> None:
    """Reproduce the tables of PAPER next to the printed figures, and say where and why they differ.

    The HTML page also has the figures of 2012.

    The data are those that the paper prints, or generated ones with the same number of records, about as many values
    and as strong a correlation: the hospital records of the papers are not public. A cell has our figure, then the
    printed one in brackets.

    \b
    Examples:
      stream-masker reproduce 2017
      stream-masker reproduce 2012 --data agaricus-lepiota.data
      stream-masker reproduce 2019 --output 2019.html
    """
    outputs.refuse_same_file({"--data": str(data or "")}, {"--output": page})
    with shown_activity(information()) as show:
        show(f"computing the tables of {paper}")
        sections = reproduction(paper, data)
    figures = {"paper": paper, "sections": [_data(section) for section in sections]}
    if page:
        outputs.write_text(page, html_page(f"Reproduction of {paper}", (), sections), private=False)
        summarise(f"the page is {page}", figures, beside=page)
    else:
        output("\n\n".join(map(_markdown, sections)), figures)


def _data(section: ReportSection) -> dict[str, Any]:
    tables = [
        {"title": block.title, "header": block.header, "rows": block.rows}
        for block in section.blocks
        if isinstance(block, ReportTable)
    ]
    return {"title": section.title, "paragraphs": section.paragraphs, "tables": tables}


def _markdown(section: ReportSection) -> str:
    tables = [block.markdown() for block in section.blocks if isinstance(block, ReportTable)]
    return "\n\n".join((f"# {section.title}", *section.paragraphs, *tables))
