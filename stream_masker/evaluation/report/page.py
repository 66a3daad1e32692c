"""Sections of text, tables and figures, and their self-contained HTML page.

``page.txt`` has the paragraphs of each section of the report below a line with its title, ``# title``, and what columns
and rows of its tables mean below a line with their names. ``page.css`` is the style sheet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain
from pathlib import Path

TEXTS, STYLE_SHEET = (Path(__file__).with_suffix(suffix) for suffix in (".txt", ".css"))


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table. The first column is the row's name. ``explained``: what columns or rows mean, by their names."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    explained: Mapping[str, str] = field(default_factory=dict)

    def html(self) -> str:
        """Return the table as HTML."""
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in self.header)
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in self.rows)
        body = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>"
        terms = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>\n" for name, text in self.explained.items())
        below = (f"<dl>\n{terms}</dl>\n" if terms else "") + _note(self.note)
        return f'<h3>{escape(self.title)}</h3>\n<div class="scroll">{body}</div>\n{below}'

    def markdown(self) -> str:
        """Return the table as Markdown."""
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in (self.header, ["---"] * len(self.header), *self.rows))
        return f"{self.title}\n\n{table}" + (f"\n\n{self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with a caption."""

    title: str
    svg: str
    note: str = ""

    def html(self) -> str:
        """Return the figure as HTML."""
        caption = f"<figcaption>{escape(self.note)}</figcaption>" if self.note else ""
        return f"<h3>{escape(self.title)}</h3>\n<figure>{self.svg}{caption}</figure>\n"


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section of the page: paragraphs, then tables and figures."""

    title: str
    paragraphs: tuple[str, ...] = ()
    blocks: tuple[ReportTable | Figure, ...] = ()

    @property
    def anchor(self) -> str:
        """The id of the section in the page."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def html(self) -> str:
        """Return the section as HTML."""
        text = "".join(f"<p>{escape(paragraph)}</p>\n" for paragraph in self.paragraphs)
        blocks = "".join(block.html() for block in self.blocks)
        return f'<section id="{self.anchor}">\n<h2>{escape(self.title)}</h2>\n{text}{blocks}</section>\n'


def text_parts(file: Path) -> dict[str, str]:
    """Return the parts of a text file by their heads, lines ``# head``."""
    parts = (part.partition("\n") for part in file.read_text(encoding="utf-8").split("# ")[1:])
    return {head: text for head, _, text in parts}


def paragraphs(head: str, file: Path = TEXTS, **names: str) -> tuple[str, ...]:
    """Return the paragraphs of a part of a text file; ``names``: what stands for names in braces."""
    texts = text_parts(file)[head].split("\n\n")
    return tuple(" ".join(text.split()).format(**names) for text in texts)


def section(title: str, *blocks: Iterable[ReportTable | Figure], **names: str) -> ReportSection:
    """Return a section with its paragraphs of ``page.txt``; empty without any table or figure."""
    shown = tuple(chain.from_iterable(blocks))
    return ReportSection(title, paragraphs(title, TEXTS, **names) if shown else (), shown)


def explanations(names: Iterable[str]) -> dict[str, str]:
    """Return what columns or rows mean, by their names."""
    return {name: paragraphs(name)[0] for name in names}


def html_page(
    title: str,
    introduction: Sequence[str],
    sections: Sequence[ReportSection],
    *,
    opening: Sequence[ReportSection] = (),
) -> str:
    """Return a page of sections with a table of contents. ``opening``: the sections before the introduction."""
    shown = [section for section in sections if section.paragraphs or section.blocks]
    entries = "".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>\n' for s in shown)
    parts = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<style>\n{STYLE_SHEET.read_text(encoding='utf-8')}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escape(title)}</h1>\n",
        *(section.html() for section in opening),
        *(f"<p>{escape(paragraph)}</p>\n" for paragraph in introduction),
        f'<nav aria-label="Contents"><ol>\n{entries}</ol></nav>\n',
        *(section.html() for section in shown),
        "</main>\n</body>\n</html>\n",
    )
    return "".join(parts)


def _note(note: str) -> str:
    return f'<p class="note">{escape(note)}</p>\n' if note else ""
