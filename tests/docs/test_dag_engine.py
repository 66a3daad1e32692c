"""The page about the engine for graphs: its example and its figures are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from support.documentation import DOCS

import stream_masker.core.replacement.dag as package
from stream_masker.core.distance import WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.replacement.dag.cache import add_value
from stream_masker.core.replacement.dag.engine import CACHED_LEVELS, DagReplacer
from stream_masker.core.replacement.dag.index import MEMBER_BLOCK
from stream_masker.core.replacement.dag.sampling import MAX_TRIES, MAX_UNTRIED, MEMBERS_PER_TRY, MIN_TRIES
from stream_masker.core.replacement.dag.scratch import MAX_SMALL_LEVEL
from stream_masker.core.replacement.level_bitsets import MAX_HEIGHT
from stream_masker.core.replacement.rule import ReplacementTask

PAGE = (DOCS / "architecture" / "dag-engine.md").read_text()
TEXT = " ".join(PAGE.split())
VALUE, REFERENCE, NOISE = "bacterial pneumonia", "sepsis", 0.3


def table(head: str) -> list[list[str]]:
    """The cells of the rows of the table whose head begins so."""
    rows = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


@pytest.fixture(scope="module")
def distance() -> WuPalmer:
    """The distance in the graph of the example."""
    links = [(child, parent) for child, parents in table("concept")[1:] for parent in parents.split(", ")]
    return WuPalmer(Ontology.from_edges(links).taxonomy())


@pytest.fixture(scope="module")
def engine(distance: WuPalmer) -> DagReplacer:
    return DagReplacer(distance, candidates="all", calibrated=True)


def levels_of(engine: DagReplacer, distance: WuPalmer, value: str):
    """The rows of the page's table of levels."""
    graph, lists, cache, _ = engine._dag
    tau = distance.taxonomy
    a = tau.position(value)
    add_value(graph, lists, cache, a)
    first, stop = cache.first_level[cache.value_ids[a] : cache.value_ids[a] + 2]
    own = distance(value, REFERENCE)
    for level in range(first, stop):
        groups, members, admissible = [], [], set()
        for group in cache.groups[cache.first_group[level] : cache.first_group[level + 1]]:
            s, x = graph.ancestors[graph.offsets[a] + group["step"]], group["list"]
            below = [tau.ids[c] for c in lists.members[lists.starts[x] : lists.starts[x + 1]]]
            groups.append(f"{tau.ids[s]} + {x - lists.first[s]}")
            members += below
            admissible |= {c for c in below if tau.lcs(value, c) == tau.ids[s] and distance(c, REFERENCE) > own}
        names = ", ".join(sorted(admissible)) or "none"
        yield [f"{cache.distances[level]:.4f}", ", ".join(groups), ", ".join(members), names]


def test_the_levels_of_the_example_are_those_of_the_engine(engine, distance):
    assert list(levels_of(engine, distance, VALUE)) == table("level")
    assert f"own distance sd(a, r) is {distance(VALUE, REFERENCE)}:" in TEXT
    assert distance.taxonomy.lcs(VALUE, REFERENCE) == "bacterial infection"


def test_the_probabilities_of_the_example_are_those_of_the_draws(engine, distance):
    lo, hi = 1 / 4, 1 / 3
    p = (NOISE**2 - lo**2) / (hi**2 - lo**2)
    assert f"= {p:.3f}." in TEXT
    assert f"viral pneumonia with probability {1 - p:.3f}, and" in TEXT
    assert f"infection with probability {p / 2:.3f} each" in TEXT
    size = 40_000
    a, r = distance.taxonomy.encode([VALUE, REFERENCE])
    words = np.random.default_rng(1).integers(0, 1 << 64, (2, size), dtype=np.uint64)
    task = ReplacementTask(np.full(size, a), np.full(size, r), np.full(size, NOISE), *words)
    ids, counts = np.unique(distance.taxonomy.decode(engine.replace(task).codes), return_counts=True)
    expected = {"viral pneumonia": 1 - p, "lung disease": p / 2, "infection": p / 2}
    assert set(ids) == set(expected)
    for name, count in zip(ids, counts, strict=True):
        assert count / size == pytest.approx(expected[name], abs=0.01)


def test_the_figures_are_the_constants():
    assert f"up to {MIN_TRIES} + members / {MEMBERS_PER_TRY} tries, at most {MAX_TRIES}; none for up to" in TEXT
    assert f"none for up to {MAX_UNTRIED} members" in TEXT
    assert f"at most {MAX_UNTRIED} members and are enumerated at once" in TEXT
    assert f"a level of up to {MAX_SMALL_LEVEL} members without pruning; otherwise by blocks of {MEMBER_BLOCK}" in TEXT
    assert f"room for {CACHED_LEVELS:,} levels" in TEXT
    assert f"Trees of at most {MAX_HEIGHT} levels have an engine of their own" in TEXT


def test_the_modules_and_functions_that_it_names_exist():
    folder = Path(package.__file__).parent
    sources = {path.name: path.read_text() for path in [*folder.glob("*.py"), *folder.parent.glob("*.py")]}
    for name in re.findall(r"`(\w+\.py)`", PAGE):
        assert name in sources
    drawing = (DOCS / "assets" / "dag-engine.svg").read_text()
    for module, function in re.findall(r">(\w+): (\w+)<", drawing):
        assert f"def {function}(" in sources[f"{module}.py"]
