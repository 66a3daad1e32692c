"""The pages of the documentation: their generated parts, and the names and claims on them.

``mkdocs build --strict`` checks the links and anchors of the site.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from support.documentation import DOCS, ROOT, TOP, generator, name_of, pages, spans

from stream_masker import __version__
from stream_masker.service.configuration import configuration_schema
from stream_masker.service.observability.metrics import ALL_METRICS

KEY = re.compile(r"[a-z_]+(\.[A-Za-z_]+)+")
FILE = re.compile(r"(stream_masker|tests|schemas|docs|deploy)/[\w./-]+|\.ci/[\w.]+")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
CLAIM = re.compile(r"^\| .+ \| `(tests/[\w/]+\.py)::(\w+)` \|$", re.MULTILINE)
CLAIMS = (DOCS / "security.md").read_text().partition("## Claims and their tests")[2]


def test_every_generated_part_is_on_exactly_one_page():
    marks = [mark for page in pages() for mark in generator().MARK.findall(page.read_text())]
    assert sorted(marks) == sorted(generator().PARTS)


@pytest.mark.parametrize("page", TOP, ids=name_of)
def test_links_of_pages_outside_of_the_site_lead_somewhere(page):
    assert [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()] == []


def test_every_metric_file_and_key_that_is_named_exists():
    metrics = {name for page in pages() for name in re.findall(r"stream_masker_\w+", page.read_text())}
    files = {span for _, span in spans() if FILE.fullmatch(span)}
    keys = {span for page, span in spans() if page != "CHANGELOG.md" and KEY.fullmatch(span)}
    keys = {key for key in keys if key.split(".")[0] in schema()["properties"]}
    assert min(len(metrics), len(files), len(keys)) > 5
    assert sorted(metrics - {metric.full_name for metric in ALL_METRICS}) == []
    assert sorted(name for name in files if not (ROOT / name).exists()) == []
    assert sorted(key for key in keys if not exists(key.split("."), schema())) == []


schema = cache(configuration_schema)


def exists(key: list[str], node: dict) -> bool:
    """Whether a part of the schema has a key; NAME stands for any name."""
    if "$ref" in node:
        node = schema()["$defs"][node["$ref"].rpartition("/")[2]]
    if options := node.get("anyOf", node.get("oneOf")):
        return any(exists(key, option) for option in options)
    named = node.get("additionalProperties")
    below = node.get("properties", {}).get(key[0], named if isinstance(named, dict) else None)
    return below is not None and (len(key) == 1 or exists(key[1:], below))


def test_each_claim_of_protection_names_a_test():
    named = CLAIM.findall(CLAIMS)
    assert len(named) == len(re.findall(r"^\| ", CLAIMS, re.MULTILINE)) - 2 > 20
    trees = {file: ast.walk(ast.parse((ROOT / file).read_text())) for file, _ in named}
    found = {(file, node.name) for file, nodes in trees.items() for node in nodes if isinstance(node, ast.FunctionDef)}
    assert sorted(set(named) - found) == []


def test_the_citation_and_the_changelog_name_the_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_notebook_is_kept_without_its_output_and_no_generated_part_contains_a_path_of_this_machine():
    """``mkdocs build`` runs the notebook, and fails if a cell does."""
    cells = json.loads((DOCS / "notebook" / "first-masks.ipynb").read_text())["cells"]
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")
    text = "".join(part() for name, part in generator().PARTS.items() if name != "notebook")
    assert len(text) > 10_000
    assert not any(str(path) in text for path in (Path.home(), ROOT))
