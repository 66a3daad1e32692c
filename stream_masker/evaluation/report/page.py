"""Sections of text, tables and figures, and their self-contained HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

STYLE_SHEET = """
:root { color-scheme: light; --ink: #222; --line: #d8d8d8; --head: #f3f5f7; --accent: #0b5c8a; }
body { font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: var(--ink); margin: 0; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 80px; }
h1 { font-size: 1.9rem; margin: 0.4em 0; } h2 { margin-top: 2.2em; border-bottom: 2px solid var(--accent); }
h3 { margin: 1.6em 0 0.4em; font-size: 1.02rem; } p { max-width: 46em; }
nav ol { columns: 2; padding-left: 1.4em; max-width: 46em; } a { color: var(--accent); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.86rem; font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: 3px 9px; text-align: right; }
th:first-child, td:first-child { min-width: 8em; width: 19em; }
th { background: var(--head); } th:first-child, td:first-child { text-align: left; }
figure { margin: 1em 0; overflow-x: auto; }
figure svg { width: 100%; min-width: 600px; max-width: 860px; height: auto; display: block; }
dl { font-size: 0.88rem; max-width: 56em; display: grid; grid-template-columns: 12em 1fr; gap: 2px 1em; }
dt { font-weight: 600; } dd { margin: 0; }
@media (max-width: 600px) { dl { display: block; } nav ol { columns: 1; } }
figcaption, .note { color: #555; font-size: 0.88rem; max-width: 52em; }
@media print { main { max-width: none; } h2 { break-after: avoid; } figure, table { break-inside: avoid; } }
"""


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


def html_page(
    title: str,
    introduction: Sequence[str],
    sections: Sequence[ReportSection],
    *,
    opening: Sequence[ReportSection] = (),
) -> str:
    """Return a page of sections with a table of contents. ``opening``: the sections before the introduction."""
    shown = [section for section in sections if section.paragraphs or section.blocks]
    return "".join(_page(title, introduction, shown, opening))


def _page(
    title: str, introduction: Sequence[str], sections: Sequence[ReportSection], opening: Sequence[ReportSection]
) -> Iterator[str]:
    yield f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<title>{escape(title)}</title>\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
    yield f"<style>{STYLE_SHEET}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
    yield from (section.html() for section in opening)
    yield from (f"<p>{escape(paragraph)}</p>\n" for paragraph in introduction)
    entries = "".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>\n' for s in sections)
    yield f'<nav aria-label="Contents"><ol>\n{entries}</ol></nav>\n'
    yield from (section.html() for section in sections)
    yield "</main>\n</body>\n</html>\n"


def _note(note: str) -> str:
    return f'<p class="note">{escape(note)}</p>\n' if note else ""
