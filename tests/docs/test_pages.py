"""The pages of the documentation: their size, generated parts, links, and the names and claims on them."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import pytest
import yaml
from support.documentation import DOCS, ROOT, anchors, filled, generator, links, name_of, pages, prose, spans

from stream_masker import __version__
from stream_masker.pipeline.reasons import Reason
from stream_masker.service.configuration import configuration_schema
from stream_masker.service.observability.metrics import ALL_METRICS

METRICS = {metric.full_name for metric in ALL_METRICS}
KEY = re.compile(r"[a-z_]+(\.[A-Za-z_]+)+")
FILE = re.compile(r"(stream_masker|tests|schemas|docs|deploy)/[\w./-]+|\.ci/[\w.]+")
CLAIM = re.compile(r"^\| .+ \| `(tests/[\w/]+\.py)::(\w+)` \|$", re.MULTILINE)


def test_the_documentation_stays_small():
    texts = [page.read_text() for page in DOCS.rglob("*.md")]
    assert len(texts) == 17
    assert sum(len(text.split()) for text in texts) <= 20_000
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_every_generated_part_is_on_exactly_one_page():
    marks = [mark for page in pages() for mark in generator().MARK.findall(page.read_text())]
    assert sorted(marks) == sorted(generator().PARTS)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_page_has_one_title_and_links_that_lead_somewhere(page):
    assert re.findall(r"^# .+$", prose(page), re.MULTILINE) == [prose(page).splitlines()[0]]
    for target in links(page):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target
        assert page.is_relative_to(DOCS) <= there.is_relative_to(DOCS), target


def test_every_metric_and_file_that_is_named_exists():
    metrics = {name for page in pages() for name in re.findall(r"stream_masker_\w+", page.read_text())}
    files = {span for _, span in spans() if FILE.fullmatch(span)}
    assert min(len(metrics), len(files)) > 5
    assert sorted(metrics - METRICS) == []
    assert sorted(name for name in files if not (ROOT / name).exists()) == []


def test_every_configuration_key_that_is_named_exists():
    sections = schema()["properties"]
    shown = [span for page, span in spans() if page != "CHANGELOG.md"]
    named = {span for span in shown if KEY.fullmatch(span) and span.split(".")[0] in sections}
    assert len(named) > 30
    assert sorted(key for key in named if not exists(key.split("."))) == []


schema = cache(configuration_schema)


def exists(key: list[str]) -> bool:
    """Whether the configuration has a key; NAME stands for any name."""
    nodes = [schema()]
    for part in key:
        nodes = [below for node in nodes for below in _below(node, part)]
    return bool(nodes)


def _below(node, part):
    for option in _options(node):
        if part in option.get("properties", {}):
            yield option["properties"][part]
        elif isinstance(option.get("additionalProperties"), dict):
            yield option["additionalProperties"]


def _options(node):
    if "$ref" in node:
        node = schema()["$defs"][node["$ref"].removeprefix("#/$defs/")]
    return [one for option in node.get("anyOf", node.get("oneOf", ())) for one in _options(option)] or [node]


def test_every_reason_and_every_key_is_in_the_reference():
    reasons = generator().reasons().splitlines()[2:]
    assert [line.split("`")[1] for line in reasons] == list(Reason)
    reference = generator().configuration_keys() + generator().mechanism_parameters()
    keys = {key for part in [schema(), *schema()["$defs"].values()] for key in part["properties"]}
    assert sorted(key for key in keys if f"`{key}`" not in reference) == ["name"]


def test_every_equation_is_cited_where_it_is_computed():
    equations = sys.modules[generator().equation_table.__module__].EQUATIONS
    assert len(equations) > 30
    assert [one.what for one in equations if one.paper not in ("ours", *cited(one.computed_by))] == []


def cited(thing) -> list[str]:
    """The years in the docstrings of a function, class or method, and of its module."""
    texts = f"{inspect.getdoc(getattr(thing, 'py_func', thing))}\n{inspect.getdoc(sys.modules[thing.__module__])}"
    return re.findall(r"\b20\d\d\b", texts)


@pytest.mark.parametrize(("file", "name"), CLAIM.findall((DOCS / "security.md").read_text()), ids=lambda value: value)
def test_each_claim_of_protection_names_a_test(file, name):
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_no_claim_is_without_a_test():
    section = (DOCS / "security.md").read_text().partition("## Claims and their tests")[2]
    assert len(CLAIM.findall(section)) == len(re.findall(r"^\| ", section, re.MULTILINE)) - 2 > 20


def test_the_citation_and_the_changelog_name_the_version_and_the_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    text = " ".join((DOCS / "index.md").read_text().lower().split())
    assert all(paper["title"].lower() in text for paper in citation["references"])


def test_every_folder_of_the_picture_exists():
    root = ElementTree.parse(DOCS / "assets" / "house.svg").getroot()
    shown = [one.text for one in root.iter() if "folder" in one.get("class", "").split()]
    package = ROOT / "stream_masker"
    assert len(shown) > 10
    assert [name for name in shown if not any(package.glob(name)) and not any(package.glob(f"*/{name}"))] == []


def test_the_notebook_holds_no_outputs():
    cells = json.loads((DOCS / "notebook" / "first-masks.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)


@pytest.mark.exhaustive
def test_the_notebook_runs_and_no_page_contains_a_path_of_this_machine():
    text = "\n".join(filled(page) for page in pages())
    assert text.count('class="dataframe"') == 5
    assert not any(str(path) in text for path in (Path.home(), ROOT))
