"""Charts as SVG: lines, and scattered points with a colour scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from stream_masker.svg import SHAPES, element, line, marker, number, picture, polyline, text

WIDTH, HEIGHT = 760.0, 420.0
LEFT, RIGHT, TOP, BOTTOM = 66.0, 230.0, 16.0, 54.0
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B", "#7A5195", "#8C6D00", "#B00020")
"""Colours that readers with colour blindness can distinguish (Okabe and Ito), and four more."""

SCALE = ("#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838")
"""Colours of a scale from low to high, equally spaced in brightness (cividis)."""

GREY, INK = "#d8d8d8", "#333333"
DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True, slots=True)
class Axis:
    """The linear scale of an axis: its label, range and ticks."""

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, label: str, values: Sequence[float], *, floor: float | None = None) -> Axis:
        """Return an axis that covers the values and ends at a tick. It starts at ``floor``, if given."""
        low = min(values, default=0.0) if floor is None else floor
        high = max([*values, low])
        step = _step(high - low)
        first, last = math.floor(low / step + 1e-9), max(math.ceil(high / step - 1e-9), math.floor(low / step) + 1)
        ticks = tuple(k * step for k in range(first, last + 1))
        return cls(label, ticks[0], ticks[-1], ticks)

    def place(self, value: float, start: float, end: float) -> float:
        """Return the pixel of a value, where ``start`` and ``end`` are the pixels of both ends of the axis."""
        return start + (value - self.low) / (self.high - self.low) * (end - start)


def _step(span: float) -> float:
    """Return the distance between ticks, for about five of them: 1, 2 or 5 times a power of ten."""
    if not span > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / 5))
    return power * next(factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 6)


def tick_text(value: float) -> str:
    """Return the text of a tick."""
    return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.1e}"


@dataclass(frozen=True, slots=True)
class Frame:
    """The area of a chart between its axes."""

    x: Axis
    y: Axis

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixels of a point."""
        return self.x.place(x, LEFT, WIDTH - RIGHT), self.y.place(y, HEIGHT - BOTTOM, TOP)

    def draw(self, names: Mapping[float, str] | None = None) -> list[str]:
        """Return the axes, the grid and the labels. ``names``: the texts of the ticks of x, their numbers by
        default."""
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        parts = [self._tick_y(tick) for tick in self.y.ticks]
        ticks = {tick: tick_text(tick) for tick in self.x.ticks} if names is None else names
        parts += [self._tick_x(tick, name) for tick, name in ticks.items()]
        parts += [line(LEFT, bottom, right, bottom, stroke=INK), line(LEFT, TOP, LEFT, bottom, stroke=INK)]
        middle = (TOP + bottom) / 2
        turned = f"rotate(-90 16 {number(middle)})"
        return [
            *parts,
            text(self.x.label, (LEFT + right) / 2, HEIGHT - 12, text_anchor="middle", fill=INK),
            text(self.y.label, 16, middle, text_anchor="middle", transform=turned, fill=INK),
        ]

    def _tick_y(self, tick: float) -> str:
        _, y = self.at(self.x.low, tick)
        label = text(tick_text(tick), LEFT - 8, y + 4, text_anchor="end", fill=INK)
        return line(LEFT, y, WIDTH - RIGHT, y, stroke=GREY) + label

    def _tick_x(self, tick: float, name: str) -> str:
        x, _ = self.at(tick, self.y.low)
        bottom = HEIGHT - BOTTOM
        mark = line(x, bottom, x, bottom + 5, stroke=INK)
        return mark + text(name, x, bottom + 18, text_anchor="middle", fill=INK)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a scatter chart: ``shade``, in [0, 1], is its colour, ``group`` its marker, ``tip`` its text."""

    x: float
    y: float
    shade: float
    group: str
    tip: str


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Sequence[tuple[str, float]]],
    *,
    floor: float = 0.0,
) -> str:
    """Return a chart with a line for each series over named settings.

    Settings are in the order in which they first occur in a series of several points. A series whose only point has
    none of these settings is a horizontal line.
    """
    names = list(dict.fromkeys(name for points in series.values() if len(points) > 1 for name, _ in points)) or [""]
    values = [value for points in series.values() for _, value in points]
    frame = Frame(
        Axis(x_label, -0.5, len(names) - 0.5, tuple(map(float, range(len(names))))),
        Axis.over(y_label, values, floor=floor),
    )
    parts = frame.draw({float(i): name for i, name in enumerate(names)})
    for number_, (label, points) in enumerate(series.items()):
        parts += _series(frame, number_, label, points, names)
    return picture(WIDTH, HEIGHT, title, _described(series), *parts)


def _series(frame: Frame, n: int, label: str, points: Sequence[tuple[str, float]], names: Sequence[str]) -> list[str]:
    colour, shape, dash = PALETTE[n % len(PALETTE)], SHAPES[n % len(SHAPES)], DASHES[n // len(SHAPES) % len(DASHES)]
    flat = len(points) == 1 and points[0][0] not in names
    places = (
        [frame.at(x, points[0][1]) for x in (frame.x.low, frame.x.high)]
        if flat
        else [frame.at(names.index(name), value) for name, value in points]
    )
    dashes = "3 4" if flat else dash or "none"
    tips = [f"{label}, {name}: {value:.4f}" for name, value in points]
    marks = (
        [] if flat else [marker(shape, x, y, 4.5, tip, fill=colour) for (x, y), tip in zip(places, tips, strict=True)]
    )
    return [
        polyline(places, fill="none", stroke=colour, stroke_width=2, stroke_dasharray=dashes),
        *marks,
        *_legend_row(n, label, lambda x, y: marker(shape, x, y, 5, fill=colour)),
    ]


def _shortened(label: str) -> str:
    return label if len(label) <= 34 else f"{label[:33]}…"


def _described(series: Mapping[str, Sequence[tuple[str, float]]]) -> str:
    lines = (f"{label}: " + ", ".join(f"{n} {v:.4f}" for n, v in points) for label, points in series.items())
    return "; ".join(lines)


def scatter_chart(
    title: str,
    x_label: str,
    y_label: str,
    points: Sequence[Point],
    *,
    scale: tuple[str, float, float],
    limits: tuple[float | None, float | None] = (None, None),
) -> str:
    """Return a chart of points whose colour shows a third measure.

    ``scale``: the name of that measure, and its values for shades 0 and 1. ``limits``: the positions of a vertical and
    a horizontal line, None for no line.
    """
    frame = Frame(
        Axis.over(x_label, [point.x for point in points], floor=0.0),
        Axis.over(y_label, [point.y for point in points], floor=0.0),
    )
    names = list(dict.fromkeys(point.group for point in points))
    marks = [_mark(names.index(p.group), *frame.at(p.x, p.y), 5.5, shade(p.shade), p.tip) for p in points]
    rows = (_legend_row(i, name, partial(_mark, i, size=5, colour="#777777")) for i, name in enumerate(names))
    legend = chain.from_iterable(rows)
    description = "; ".join(point.tip for point in points)
    lines = _limit_lines(frame, *limits)
    return picture(WIDTH, HEIGHT, title, description, *frame.draw(), *lines, *marks, *legend, *_colour_bar(*scale))


def _mark(n: int, x: float, y: float, size: float, colour: str, tip: str = "") -> str:
    """Return the marker of group n: filled, or an outline if there are more groups than shapes."""
    if n < len(SHAPES):
        return marker(SHAPES[n], x, y, size, tip, fill=colour, stroke=INK, stroke_width=0.8)
    return marker(SHAPES[n % len(SHAPES)], x, y, size - 0.5, tip, fill="white", stroke=colour, stroke_width=2)


def _legend_row(n: int, name: str, mark: Callable[[float, float], str]) -> list[str]:
    """Return row n of the legend. ``mark``: draws its marker at a point."""
    x, y = WIDTH - RIGHT + 24, TOP + 12 + 19 * n
    return [mark(x, y), text(_shortened(name), x + 12, y + 4, fill=INK, font_size=11)]


def _limit_lines(frame: Frame, x: float | None, y: float | None) -> list[str]:
    style = {"stroke": "#B00020", "stroke_dasharray": "5 4"}
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    lines = []
    if x is not None and frame.x.low <= x <= frame.x.high:
        place, _ = frame.at(x, 0.0)
        lines.append(line(place, TOP, place, bottom, **style))
    if y is not None and frame.y.low <= y <= frame.y.high:
        _, place = frame.at(0.0, y)
        lines.append(line(LEFT, place, right, place, **style))
    return lines


def shade(value: float) -> str:
    """Return the colour of the scale for a value in [0, 1]."""
    return SCALE[min(len(SCALE) - 1, max(0, int(value * len(SCALE))))]


def _colour_bar(name: str, low: float, high: float) -> list[str]:
    x, y, step = WIDTH - RIGHT + 20, HEIGHT - BOTTOM - 34, 30.0
    boxes = [
        element("rect", x=x + i * step, y=y, width=step, height=12.0, fill=colour) for i, colour in enumerate(SCALE)
    ]
    end = x + step * len(SCALE)
    return [
        text(name, x, y - 8, fill=INK, font_size=11),
        *boxes,
        text(f"{low:.2g}", x, y + 26, fill=INK, font_size=11),
        text(f"{high:.2g}", end, y + 26, text_anchor="end", fill=INK, font_size=11),
    ]
