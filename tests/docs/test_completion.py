"""The lines of the documentation that complete commands with the Tab key."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/command-line.md"
COMPLETERS = {"bash": "complete -p stream-masker", "zsh": "echo $_comps[stream-masker]"}
"""For each shell the command that shows what completes the arguments of stream-masker."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("shell", COMPLETERS)
def test_the_line_of_a_shell_completes_commands(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}: install it")
    (line,) = (line for line in PAGE.read_text().splitlines() if f"{shell}_source" in line)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ZDOTDIR": str(tmp_path),
    }
    done = subprocess.run(
        [shell, "-c", f"{line}\n{COMPLETERS[shell]}"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_stream_masker_completion" in done.stdout
    assert done.stderr == ""
