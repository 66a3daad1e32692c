"""The pages about the architecture: every file, class, function and constant that they name exists."""

from __future__ import annotations

import ast
import importlib
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support.documentation import DOCS, ROOT, SPAN, generator, name_of, prose

PACKAGE = ROOT / "stream_masker"
PAGES = sorted((DOCS / "architecture").glob("*.md"))
OWN = tuple(DOCS / "architecture" / name for name in ("index.md", "record.md", "change.md"))
NAME = re.compile(r"[A-Z]\w*[A-Za-z](\.[a-z_]+)?(?<!\.md)")
SIZE = re.compile(r"(\d[\d,]*)( MiB)?")
TREE = re.compile(r"(stream_masker|tests|docs|schemas)(/[\w./-]+)?")


def rows(page: Path, *columns: str) -> Iterator[list[str]]:
    """The cells of these columns, of every table that has them."""
    head: list[str] = []
    for line in prose(page).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not head or not cells:
            head = cells
        elif set(columns) <= set(head) and not line.startswith("| ---"):
            yield [cells[head.index(column)] for column in columns]


def definitions(module: Path) -> set[str]:
    """The names that a module defines: ``name`` and ``Class.name``."""
    tree = ast.parse(module.read_text())
    return set(_names(tree)) | {
        f"{one.name}.{name}" for one in tree.body if isinstance(one, ast.ClassDef) for name in _names(one)
    }


def _names(node: ast.Module | ast.ClassDef) -> Iterator[str]:
    for one in node.body:
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name
        targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
        yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


@cache
def all_definitions() -> frozenset[str]:
    """What all modules define, and the members of their classes without the class."""
    names = {name for module in PACKAGE.rglob("*.py") for name in definitions(module)}
    return frozenset(names | {name.rpartition(".")[2] for name in names})


CODE = [(page, *row) for page in PAGES for row in rows(page, "code", "file")]
CONSTANTS = [row for page in PAGES for row in rows(page, "constant", "file", "value")]


def test_the_pages_name_code_and_constants():
    assert len(CODE) > 50
    assert len(CONSTANTS) >= 10


@pytest.mark.parametrize(("page", "code", "file"), CODE, ids=lambda value: value if isinstance(value, str) else "")
def test_every_name_is_defined_in_its_file(page, code, file):
    (path,) = SPAN.findall(file)
    names = SPAN.findall(code)
    assert names
    assert set(names) <= definitions(ROOT / path), name_of(page)


@pytest.mark.parametrize("page", OWN, ids=name_of)
def test_every_class_method_and_constant_in_the_text_exists(page):
    named = {span for span in SPAN.findall(prose(page)) if NAME.fullmatch(span)}
    assert sorted(named - all_definitions()) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_and_folder_exists(page):
    named = {span for span in SPAN.findall(prose(page)) if TREE.fullmatch(span)}
    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@pytest.mark.parametrize(("constant", "file", "value"), CONSTANTS, ids=lambda cell: cell)
def test_every_constant_has_its_value(constant, file, value):
    (name,), (path,) = SPAN.findall(constant), SPAN.findall(file)
    number, mebibytes = SIZE.fullmatch(value).groups()
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    assert getattr(module, name) == int(number.replace(",", "")) * (1 << 20 if mebibytes else 1)


def test_every_change_names_files_and_tests():
    changes = list(rows(DOCS / "architecture" / "change.md", "change", "files", "tests"))
    assert len(changes) >= 20
    assert [what for what, files, _ in changes if not SPAN.search(files)] == []
    assert [what for what, _, tests in changes if "`tests/" not in tests] == []


def test_every_folder_of_the_package_is_described():
    shown = re.findall(r"^\| `([\w/]+)` \| (.+) \|$", generator().folders(), re.MULTILINE)
    folders = [path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")]
    assert sorted(folder for folder, _ in shown) == sorted(set(folders) - {"."})
    assert [folder for folder, text in shown if len(text) < 10] == []


def test_every_folder_of_the_picture_exists():
    root = ElementTree.parse(DOCS / "assets" / "house.svg").getroot()
    shown = [one.text for one in root.iter() if "folder" in one.get("class", "").split()]
    assert len(shown) > 20
    assert [name for name in shown if not any(PACKAGE.glob(name)) and not any(PACKAGE.glob(f"*/{name}"))] == []
