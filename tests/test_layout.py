"""The layout of the package: one home for each name, a docstring for each folder, and folders of few modules."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

TOP = Path(__file__).parents[1]
PACKAGE = TOP / "stream_masker"
MODULES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = sorted({path.parent for path in MODULES})

MOST_MODULES = 28
SHARED_PREFIX = 3
"""This number of modules of one folder that share a prefix must be a folder of their own."""


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def test_each_module_and_folder_says_what_it_is_in_one_line():
    paths = [*MODULES, *(folder / "__init__.py" for folder in FOLDERS)]
    first = {str(path.relative_to(TOP)): docstring(path).split("\n\n")[0] for path in paths}
    assert [path for path, line in first.items() if not line or "\n" in line] == []


def test_no_folder_holds_more_modules_than_a_reader_takes_in():
    for folder in FOLDERS:
        names = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
        assert len(names) <= MOST_MODULES, folder
        prefixes = Counter(name.split("_")[0] for name in names if not name.startswith("_"))
        assert [prefix for prefix, count in prefixes.items() if count >= SHARED_PREFIX] == [], folder
