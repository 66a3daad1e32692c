"""SVG elements as text, with numbers in a fixed format, for the report and for the calibrator's page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

Attribute = str | float


def number(value: float) -> str:
    """Format a coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(name: str, *children: str, **attributes: Attribute) -> str:
    """Return an element. Underscores in the names of attributes stand for hyphens.

    ``children`` are not escaped; ``text`` escapes its content.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
    )
    content = "".join(children)
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def text(content: str, x: float, y: float, **attributes: Attribute) -> str:
    """Return a line of text at a position."""
    return element("text", escape(content), x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: Attribute) -> str:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def polyline(points: Iterable[tuple[float, float]], **attributes: Attribute) -> str:
    """Return a line through points."""
    return element("polyline", points=" ".join(f"{number(x)},{number(y)}" for x, y in points), **attributes)


SHAPES = ("circle", "square", "triangle", "diamond", "cross", "plus", "down", "bar")
"""The shapes of markers. They distinguish groups without colour."""

_OUTLINES = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle": ((0, -1.25), (1.15, 0.95), (-1.15, 0.95)),
    "diamond": ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
    "cross": (
        *((-1.2, -0.7), (-0.7, -1.2), (0, -0.5), (0.7, -1.2), (1.2, -0.7), (0.5, 0)),
        *((1.2, 0.7), (0.7, 1.2), (0, 0.5), (-0.7, 1.2), (-1.2, 0.7), (-0.5, 0)),
    ),
    "plus": (
        *((-0.35, -1.25), (0.35, -1.25), (0.35, -0.35), (1.25, -0.35), (1.25, 0.35), (0.35, 0.35)),
        *((0.35, 1.25), (-0.35, 1.25), (-0.35, 0.35), (-1.25, 0.35), (-1.25, -0.35), (-0.35, -0.35)),
    ),
    "down": ((0, 1.25), (1.15, -0.95), (-1.15, -0.95)),
    "bar": ((-0.5, -1.4), (0.5, -1.4), (0.5, 1.4), (-0.5, 1.4)),
}


def marker(shape: str, x: float, y: float, size: float, tip: str = "", **attributes: Attribute) -> str:
    """Return a marker around a point. ``tip``: the text that a browser shows over it."""
    label = (element("title", escape(tip)),) if tip else ()
    if shape == "circle":
        return element("circle", *label, cx=x, cy=y, r=size, **attributes)
    points = " ".join(f"{number(x + size * dx)},{number(y + size * dy)}" for dx, dy in _OUTLINES[shape])
    return element("polygon", *label, points=points, **attributes)


def picture(width: float, height: float, title: str, description: str, *children: str) -> str:
    """Return a picture with a title, and a description for readers who cannot see it."""
    return element(
        "svg",
        element("title", escape(title)),
        element("desc", escape(description)),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_label=title,
        font_family="system-ui, sans-serif",
        font_size=12,
    )
