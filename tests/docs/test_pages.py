"""The pages of the documentation: generated parts, links, and the names on them."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from support.documentation import DOCS, ROOT, anchors, filled, generator, links, name_of, pages, prose, spans
from support.documented import ALL_METRICS, Reason, __version__, configuration_schema

METRICS = {metric.full_name for metric in ALL_METRICS}
KEY = re.compile(r"[a-z_]+(\.[A-Za-z_]+)+")
FILE = re.compile(r"(stream_masker|tests|schemas|docs)/[\w./-]+|\.ci/[\w.]+")


def test_every_generated_part_is_on_exactly_one_page():
    marks = [mark for page in pages() for mark in generator().MARK.findall(page.read_text())]
    assert sorted(marks) == sorted(generator().PARTS)


@pytest.mark.parametrize("module", sorted(DOCS.glob("*.py")), ids=lambda path: path.stem)
def test_every_module_of_the_documentation_loads(module):
    assert generator()
    assert importlib.import_module(module.stem).__doc__


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_page_begins_with_one_title(page):
    assert re.findall(r"^# .+$", prose(page), re.MULTILINE) == [prose(page).splitlines()[0]]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_somewhere(page):
    for target in links(page):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target
        assert page.is_relative_to(DOCS) <= there.is_relative_to(DOCS), target


def test_a_line_of_code_does_not_break_after_a_hyphen():
    content = "<p>-x <code>-c</code> <code>demo --json a_b</code></p><pre><code><a></a>--json</code></pre>"
    marked = generator().on_page_content(content)
    assert re.findall(r'<span class="word">(.*?)</span>', marked) == ["-c", "--json"]
    assert re.sub(r"</?span.*?>", "", marked) == content


def test_every_metric_that_is_named_exists():
    named = {name for page in pages() for name in re.findall(r"stream_masker_\w+", page.read_text())}
    assert len(named) > 10
    assert sorted(named - METRICS) == []


def test_every_configuration_key_that_is_named_exists():
    sections = schema()["properties"]
    named = {span for _, span in spans() if KEY.fullmatch(span) and span.split(".")[0] in sections}
    assert len(named) > 30
    assert sorted(key for key in named if not exists(key.split("."))) == []


schema = cache(configuration_schema)


def exists(key: list[str]) -> bool:
    """Whether the configuration has a key; NAME stands for any name."""
    root = schema()
    nodes = [root]
    for part in key:
        nodes = [below for node in nodes for below in _below(node, part, root)]
    return bool(nodes)


def _below(node, part, root):
    for option in _options(node, root):
        if part in option.get("properties", {}):
            yield option["properties"][part]
        elif isinstance(option.get("additionalProperties"), dict):
            yield option["additionalProperties"]


def _options(node, root):
    if "$ref" in node:
        node = root["$defs"][node["$ref"].removeprefix("#/$defs/")]
    return [one for option in node.get("anyOf", node.get("oneOf", ())) for one in _options(option, root)] or [node]


def test_every_file_that_is_named_exists():
    named = {span for _, span in spans() if FILE.fullmatch(span)}
    assert len(named) > 5
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_every_reason_is_listed_with_its_meaning():
    table = generator().reasons()
    assert [line.split("`")[1] for line in table.splitlines()[2:]] == list(Reason)
    assert all(len(line.split("|")[2]) > 10 for line in table.splitlines()[2:])


def test_every_key_of_the_configuration_is_in_the_reference():
    reference = generator().configuration_keys() + generator().mechanism_parameters()
    schema = configuration_schema()
    keys = {key for part in [schema, *schema["$defs"].values()] for key in part["properties"]}
    assert sorted(key for key in keys if f"`{key}`" not in reference) == ["name"]


def test_every_equation_is_cited_where_it_is_computed():
    equations = sys.modules[generator().equation_table.__module__].EQUATIONS
    assert len(equations) > 30
    uncited = [one.what for one in equations if one.paper != "ours" and one.paper not in cited(one.computed_by)]
    assert uncited == []


def cited(thing) -> str:
    """The docstrings of a function, class or method, and of its module."""
    module = sys.modules[thing.__module__]
    return f"{inspect.getdoc(getattr(thing, 'py_func', thing))}\n{inspect.getdoc(module)}"


def test_the_citation_names_the_version_and_the_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert [paper["year"] for paper in citation["references"]] == [2012, 2013, 2016, 2017, 2019]
    text = " ".join((DOCS / "index.md").read_text().lower().split())
    assert all(paper["title"].lower() in text for paper in citation["references"])


def test_the_changelog_names_the_version():
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_no_page_contains_a_path_of_this_machine():
    """``test_notebook`` runs the notebook, and looks at its page."""
    text = "\n".join(filled(page) for page in pages() if page.parent.name != "notebook")
    assert str(Path.home()) not in text
    assert str(ROOT) not in text
