"""Charts of the live page as SVG and HTML: lines over versions, and a heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from stream_masker import svg

WIDTH, HEIGHT = 320, 180
LEFT, RIGHT, TOP, BOTTOM = 34, 8, 10, 24
COLORS = 6
"""The number of colours; further lines of a chart are only in its table."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line over versions, None where the version has no figure. Lines of one ``color`` belong together."""

    name: str
    values: Sequence[float | None]
    color: int
    dashed: bool = False


def version_chart(title: str, versions: Sequence[int], lines: Sequence[Line]) -> str:
    """Return a chart with its legend. Its axis begins at 0 and ends at 1, or at the greatest value if that is small.

    The chart is an image to screen readers: the numbers are in the table that the page shows beside it.
    """
    shown = [line for line in lines if line.color < COLORS]
    top = _top([value for line in shown for value in line.values if value is not None])
    marks = (part for share in (0.0, 0.5, 1.0) for part in _grid(top, share))
    drawn = (part for line in shown for part in _line(line, len(versions), top))
    parts = (*marks, *_version_labels(versions), *drawn)
    whole = {"class_": "chart", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria_label": title}
    return svg.element("svg", *parts, **whole) + _legend(shown)


def _top(values: Sequence[float]) -> float:
    greatest = max(values, default=0.0)
    return next((top for top in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if greatest <= top), greatest)


def _grid(top: float, share: float) -> tuple[str, str]:
    y = _y(share * top, top)
    label = svg.text(f"{share * top:.3g}", LEFT - 4, y + 4, text_anchor="end")
    return svg.line(LEFT, y, WIDTH - RIGHT, y, class_="grid"), label


def _version_labels(versions: Sequence[int]) -> list[str]:
    ends = [(LEFT, "start", versions[0]), (WIDTH - RIGHT, "end", versions[-1])][: len(versions)]
    return [svg.text(f"v{version}", x, HEIGHT - 6, text_anchor=anchor) for x, anchor, version in ends]


def _line(line: Line, versions: int, top: float) -> list[str]:
    """Return the parts of a line; a part of one version is a dot."""
    parts = ([(_x(i, versions), _y(value, top)) for i, value in points] for points in _runs(line.values))
    return [
        svg.marker("circle", *points[0], 3, class_=_style(line))
        if len(points) == 1
        else svg.polyline(points, class_=_style(line))
        for points in parts
    ]


def _style(line: Line) -> str:
    return f"c{line.color}{' dashed' if line.dashed else ''}"


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Return the values with their positions, divided where values are missing."""
    runs: list[list[tuple[int, float]]] = [[]]
    for i, value in enumerate(values):
        if value is not None:
            runs[-1].append((i, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _x(position: int, versions: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (position / (versions - 1) if versions > 1 else 0.5)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / top)


def _legend(lines: Sequence[Line]) -> str:
    samples = (svg.line(0, 4, 24, 4, class_=_style(line)) for line in lines)
    items = "".join(
        f"<li>{svg.element('svg', sample, viewBox='0 0 24 8', aria_hidden='true')}{escape(line.name)}</li>"
        for line, sample in zip(lines, samples, strict=True)
    )
    return f'<ul class="legend">{items}</ul>'


def heat_map(caption: str, names: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """Return a table whose cells are coloured by their share of the greatest value."""
    greatest = max((value for row in rows for value in row), default=0.0) or 1.0
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(_cell(value, greatest) for value in row)}</tr>'
        for name, row in zip(names, rows, strict=True)
    )
    return (
        f'<table class="heat"><caption>{escape(caption)}</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(value: float, greatest: float) -> str:
    share = max(0.0, value) / greatest
    return f'<td style="--heat:{share:.0%}">{value:.4f}</td>'


def bar(share: float, kind: str) -> str:
    """Return a number in [0, 1] with a bar of that length."""
    return f'<span class="bar {kind}" style="--share:{min(1.0, max(0.0, share)):.3f}"></span>{share:.3f}'


def table(caption: str, head: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """Return a table; the cells of ``rows`` are HTML, their keys and the head are text. An empty head is left out."""
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in head if name)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for name, cells in rows.items()
    )
    header = f"<thead><tr>{columns}</tr></thead>" if columns else ""
    return f"<table><caption>{escape(caption)}</caption>{header}<tbody>{body}</tbody></table>"
