"""Screenshot of the demonstration, taken from a real run.

``python docs/screenshot.py`` runs the demonstration and writes ``docs/assets/demo.svg``.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, RenderableType

from stream_masker.service.demo.options import DemoOptions
from stream_masker.service.demo.run import run_demo
from stream_masker.service.demo.view import DemoView

TARGET = Path(__file__).parent / "assets" / "demo.svg"
WIDTH = 116
LOCAL_FONTS = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's SVG template without the fonts that it loads from another host."""


def main() -> None:
    """Run the demonstration, then draw its last screen."""
    screen = last_screen()
    shown = Console(record=True, width=WIDTH, force_terminal=True, file=io.StringIO())
    shown.print("[bold]$[/bold] stream-masker demo --records 20000", highlight=False)
    shown.print(screen)
    TARGET.write_text(shown.export_svg(title="stream-masker demo", code_format=LOCAL_FONTS) + "\n")


def last_screen() -> RenderableType:
    """What the demonstration shows on a terminal at its end."""
    screens: list[RenderableType] = []
    update = DemoView.update

    def remember(view: DemoView, seen: Any) -> None:
        screens[:] = [view._screen(seen)]
        update(view, seen)

    with patch.object(DemoView, "update", remember):
        run_demo(DemoOptions(records=20_000), Console())
    return screens[0]


if __name__ == "__main__":
    main()
