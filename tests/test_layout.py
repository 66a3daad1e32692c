"""The layout: a docstring for each module and folder, folders of few modules, and judges of public names only."""

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


JUDGES = ("contract", "oracle", "kafka", "golden")
"""Tests under which a part of the package can be written anew; ``support.core_parts`` has what else they examine."""

PUBLIC = {
    "stream_masker",
    "stream_masker.cli",
    "stream_masker.core.mechanisms",
    "stream_masker.core.statistics",
    "stream_masker.errors",
    "stream_masker.frames",
    "stream_masker.service.configuration",
}
"""The documented modules, and the folders that export names."""


def imported(path: Path) -> set[str]:
    """The modules of the package that a module imports from."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name for name in names if name.split(".")[0] == "stream_masker"}


def test_judges_import_public_names_only():
    found = {path: imported(path) for room in JUDGES for path in (TOP / "tests" / room).rglob("*.py")}
    assert len(set().union(*found.values())) > 4
    assert {path.name: names - PUBLIC for path, names in found.items() if names - PUBLIC} == {}
