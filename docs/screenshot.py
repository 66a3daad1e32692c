"""Screenshot of the demonstration, taken from a real run.

``python docs/screenshot.py`` runs the demonstration and writes ``docs/assets/demo.svg``.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from stream_masker.service.demo.options import DemoOptions
from stream_masker.service.demo.run import run_demo

TARGET = Path(__file__).parent / "assets" / "demo.svg"
WIDTH = 116
LOCAL_FONTS = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's SVG template without the fonts that it loads from another host."""


def main() -> None:
    """Run the demonstration, and draw what it leaves on a terminal."""
    shown = Console(record=True, width=WIDTH, force_terminal=True, file=io.StringIO())
    shown.print("[bold]$[/bold] stream-masker demo", highlight=False)
    summary = run_demo(DemoOptions(), shown)
    shown.print(summary.text, highlight=False)
    TARGET.write_text(shown.export_svg(title="stream-masker demo", code_format=LOCAL_FONTS) + "\n")


if __name__ == "__main__":
    main()
