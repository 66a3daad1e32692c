"""The replacement engine for graphs: draws are uniform, and neither the cache nor the batch changes them."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from support.large import phenotypes, snomed_shaped

from stream_masker.core.distance import WuPalmer
from stream_masker.core.kernels.bits import ANCESTOR_LINE
from stream_masker.core.ontology import Ontology
from stream_masker.core.replacement.dag.cache import GROUPS, LEVELS, LISTED_PLACES, QUERIES, STATUSES, add_value
from stream_masker.core.replacement.dag.engine import DagReplacer
from stream_masker.core.replacement.dag.index import MAX_LEVELS, build_graph, is_in_range, next_ancestor, next_line
from stream_masker.core.replacement.dag.pruning import is_level_prunable
from stream_masker.core.replacement.dag.query import Query
from stream_masker.core.replacement.dag.sampling import MAX_UNTRIED, max_tries
from stream_masker.core.replacement.dag.scratch import (
    CLEAN,
    HELD,
    NO_CONCEPT_MARKED,
    REFERENCE,
    STAGE,
    VALUE,
    clean_query,
    common_subsumer,
    hold_value,
    new_ancestor_scratch,
)
from stream_masker.core.replacement.rows.engine import RowReplacer
from stream_masker.core.replacement.rule import NO_REFERENCE, ReplacementTask
from stream_masker.core.replacement.select import replacer
from stream_masker.errors import ParameterError

TOP = 1 << 64
DRAWS = 20_000


@pytest.fixture(scope="module")
def d():
    return WuPalmer(snomed_shaped(3_000))


def values(d, size, seed=3) -> ReplacementTask:
    """Values with near and far references."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, len(d.taxonomy), size).astype(np.int32)
    references = np.where(rng.random(size) < 0.3, codes + rng.integers(-9, 9, size), rng.integers(-1, 3_000, size))
    words = rng.integers(0, TOP, (2, size), dtype=np.uint64)
    return ReplacementTask(codes, np.clip(references, -1, 2_999).astype(np.int32), rng.normal(0, 0.3, size), *words)


def rows(task: ReplacementTask, which) -> ReplacementTask:
    return ReplacementTask(
        *(getattr(task, name)[which] for name in ("codes", "references", "noise", "rounding", "ties"))
    )


def admissible(d, a, r, noise, level) -> np.ndarray:
    """The concepts at the distance ``level`` from a that meet the sign condition, found by visiting all concepts."""
    at = d.to_all(a) == level
    if r not in (NO_REFERENCE, a):
        to_r = d.to_all(r)
        at &= to_r > to_r[a] if noise > 0 else to_r < to_r[a]
    return np.flatnonzero(at)


def chi_square(codes, among) -> tuple[float, float]:
    """The statistic of draws that should be uniform, and a limit that it exceeds with a probability of about 1e-5."""
    found = np.searchsorted(among, codes)
    np.testing.assert_array_equal(among[found], codes)
    expected = codes.size / among.size
    counts = np.bincount(found, minlength=among.size)
    freedom = among.size - 1
    return float(((counts - expected) ** 2 / expected).sum()), freedom + 4.3 * np.sqrt(2 * freedom) + 14


def test_draws_are_uniform_among_admissible_candidates(d):
    """Levels have all sizes and shares: on some of them tries succeed, others are enumerated."""
    engine = DagReplacer(d, candidates="all", calibrated=False)
    tried, sizes = 0, []
    for i in range(400):
        one = rows(values(d, 400), [i] * DRAWS)
        if tried == 40 or one.noise[0] == 0:
            break
        first = engine.replace(rows(one, slice(1)))
        among = admissible(d, one.codes[0], one.references[0], one.noise[0], first.distances[0])
        if first.flags[0] or not 2 <= among.size <= DRAWS // 20:
            continue
        ties = np.random.default_rng(i).integers(0, TOP, DRAWS, dtype=np.uint64)
        drawn = engine.replace(ReplacementTask(one.codes, one.references, one.noise, one.rounding, ties))
        statistic, limit = chi_square(drawn.codes, among)
        assert statistic < limit
        tried += 1
        sizes.append(among.size)
    assert tried == 40
    assert min(sizes) <= MAX_UNTRIED < 50 < max(sizes)


@pytest.mark.parametrize("cached_levels", [0, 5_000])
@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("candidates", ["all", "leaves"])
@pytest.mark.parametrize("taxonomy", [phenotypes, lambda: snomed_shaped(3_000)], ids=["hpo", "made up"])
def test_the_cache_changes_nothing(cached_levels, calibrated, candidates, taxonomy):
    """The order and the batch change nothing either: an engine with a tiny cache replaces each value alone."""
    distance = WuPalmer(taxonomy())
    task = rows(values(distance, 300), np.random.default_rng(5).integers(0, 300, 3_000))
    whole = DagReplacer(distance, candidates=candidates, calibrated=calibrated)
    small = DagReplacer(distance, candidates=candidates, calibrated=calibrated, cached_levels=cached_levels)
    expected = whole.replace(task)
    np.testing.assert_array_equal(whole.replace(task).codes, expected.codes)
    order = np.random.default_rng(6).permutation(3_000)
    for which in np.split(order, [*range(1, 1_000), 1_000, 2_500]):
        found = small.replace(rows(task, which))
        np.testing.assert_array_equal(found.codes, expected.codes[which])
        np.testing.assert_array_equal(found.distances, expected.distances[which])
        np.testing.assert_array_equal(found.flags, expected.flags[which])


def test_candidates_near_to_a_reference_over_equally_deep_subsumers_are_found():
    """The deepest common ancestors of f and g are c and d, equally deep; over c, the first, the paths are shorter."""
    links = ("ba", "ca", "da", "ed", "ea", "fa", "fc", "fd", "ga", "gc", "ge")
    d = WuPalmer(Ontology.from_edges([(child, parent) for child, parent in links]).taxonomy())
    value, reference = d.taxonomy.encode(["b", "f"])
    assert admissible(d, value, reference, -1.0, d("b", "g")).tolist().count(d.taxonomy.position("g")) == 1
    size = 500
    words = np.random.default_rng(1).integers(0, TOP, (2, size), dtype=np.uint64)
    task = ReplacementTask(np.full(size, value), np.full(size, reference), np.full(size, -1.0), *words)
    for candidates in ("all", "leaves"):
        drawn = DagReplacer(d, candidates=candidates, calibrated=False).replace(task)
        assert "g" in d.taxonomy.decode(drawn.codes)


def test_the_cache_is_bounded(d):
    """There are many more values and queries than the cache can hold."""
    engine = DagReplacer(d, candidates="all", calibrated=True, cached_levels=2_000)
    cache = engine._dag.cache
    most = []
    for seed in range(20):
        engine.replace(values(d, 2_000, seed))
        most.append(cache.used.copy())
        assert cache.used[LEVELS] <= cache.distances.size
        assert cache.used[GROUPS] <= cache.groups.size
        assert cache.used[QUERIES] <= cache.queries.size // 2
        assert cache.used[STATUSES] <= cache.statuses.size
        assert cache.used[LISTED_PLACES] <= cache.listed.size
    assert cache.distances.size < 10_000
    assert len({used.tobytes() for used in most}) > 1


def test_the_scratch_memory_is_clean_after_a_batch(d):
    engine = DagReplacer(d, candidates="all", calibrated=True)
    engine.replace(values(d, 2_000))
    scratch = engine._dag.scratch
    assert not scratch.marks.any()
    assert scratch.state[STAGE] == CLEAN
    assert scratch.state[HELD] == NO_CONCEPT_MARKED


@pytest.mark.parametrize("candidates", ["all", "leaves"])
def test_remote_candidates_share_only_the_root(d, candidates):
    remote = DagReplacer(d, candidates=candidates, calibrated=True)._dag.lists.remote
    assert remote.size > 1
    assert candidates == "all" or d.taxonomy.leaf[remote].all()
    ids = d.taxonomy.decode(remote)
    assert {d.taxonomy.lcs(one, other) for one in ids for other in ids if one != other} == {d.taxonomy.root}


def test_the_number_of_tries_depends_on_the_number_of_members_and_is_bounded():
    assert [max_tries.py_func(size) for size in (1, 8, 9, 64, 1_000_000)] == [0, 0, 4, 6, 4096]


def test_a_negative_cache_size_is_rejected(d):
    with pytest.raises(ParameterError, match=r"^cached_levels=-1 is not allowed: use 0 or more$"):
        DagReplacer(d, candidates="all", calibrated=True, cached_levels=-1)


def test_lines_hold_the_closure(d):
    """Concepts have fewer ancestors than fit into a line, exactly as many, or more."""
    graph = build_graph(d.taxonomy)
    counts = set()
    for c in range(len(d.taxonomy)):
        row = slice(graph.offsets[c], graph.offsets[c + 1])
        expected = list(zip(graph.ancestors[row].tolist(), graph.paths[row].tolist(), strict=True))
        counts.add(min(max(len(expected), ANCESTOR_LINE - 1), 2 * ANCESTOR_LINE))
        found, at = [], ANCESTOR_LINE * c
        for _ in expected:
            x, path, at = next_ancestor.py_func(graph, at)
            found.append((x, path))
        assert found == expected
        lines, at = 0, ANCESTOR_LINE * c
        while at > 0 or lines == 0:
            lines, at = lines + 1, next_line.py_func(graph, at)
        assert lines == 1 + max(0, (len(expected) - 2) // (ANCESTOR_LINE - 1))
    assert counts == set(range(ANCESTOR_LINE - 1, 2 * ANCESTOR_LINE + 1))


@pytest.mark.parametrize("side", [VALUE, REFERENCE])
def test_marked_ancestors_determine_the_least_common_subsumer(d, side):
    """It equals that of the closure: the deepest common ancestor; in a tie, the fewest links, then the last one."""
    tau = d.taxonomy
    up, graph = tau.closure, build_graph(tau)
    scratch = new_ancestor_scratch(len(tau), int(np.diff(up.offsets).max()), int(tau.depth.max()))
    rng = np.random.default_rng(2)
    long_rows = rng.permutation(np.flatnonzero(np.diff(up.offsets) > 2 * ANCESTOR_LINE))
    for a in [*rng.integers(0, len(tau), 20), *long_rows[:5]]:
        mine = slice(up.offsets[a], up.offsets[a + 1])
        scratch.marks[:] = 0
        scratch.marks[2 * up.ancestors[mine] + side] = up.paths[mine] + 1
        scratch.marks[2 * rng.integers(0, len(tau), 99) + 1 - side] = 7
        for c in [*rng.integers(0, len(tau), 50), *long_rows[-5:]]:
            yours = slice(up.offsets[c], up.offsets[c + 1])
            common, at, other = np.intersect1d(up.ancestors[mine], up.ancestors[yours], return_indices=True)
            links = up.paths[mine][at].astype(int) + up.paths[yours][other]
            best = max(range(common.size), key=lambda i: (tau.depth[common[i]], -links[i], common[i]))
            assert subsumer(graph, scratch, c, side) == (common[best], (tau.depth[common[best]], links[best]))


@njit
def subsumer(graph, scratch, c, side):
    return common_subsumer(graph, scratch, c, side)


def test_pruned_levels_have_no_admissible_member(d):
    """The distances to all concepts confirm it. Many empty levels are pruned."""
    engine = DagReplacer(d, candidates="all", calibrated=False)
    dag = engine._dag
    cache = dag.cache
    empty, pruned = 0, 0
    for a, r in np.random.default_rng(8).integers(1, 3_000, (150, 2)):
        if a == r:
            continue
        if cache.value_ids[a] == 0:
            add_value(dag.graph, dag.lists, cache, a)
        first, stop = cache.first_level[cache.value_ids[a] : cache.value_ids[a] + 2]
        found = pruned_levels(dag, a, r, first, stop)
        expected = [admissible(d, a, r, 1.0, level).size == 0 for level in cache.distances[first:stop]]
        assert not (found & ~np.array(expected)).any()
        empty, pruned = empty + sum(expected), pruned + found.sum()
    assert empty / 4 < pruned < empty


def test_a_level_is_not_pruned_where_a_deeper_subsumer_has_long_paths():
    """Over s, c and r are as near to each other as a and r, but u is deeper, and just far enough from both."""
    links = ("st", "as", "us", "xu", "yu", "cx", "cs", "ry", "rs")
    d = WuPalmer(Ontology.from_edges([(child, parent) for child, parent in links]).taxonomy())
    a, c, r = d.taxonomy.encode(["a", "c", "r"])
    assert c in admissible(d, a, r, 1.0, d("a", "c"))
    words = np.random.default_rng(1).integers(0, TOP, (2, 500), dtype=np.uint64)
    task = ReplacementTask(np.full(500, a), np.full(500, r), np.full(500, 0.9 * d("a", "c")), *words)
    assert c in DagReplacer(d, candidates="all", calibrated=False).replace(task).codes


@njit
def pruned_levels(dag, a, r, first, stop):
    hold_value(dag.graph, dag.scratch, a)
    _, own_distance = common_subsumer(dag.graph, dag.scratch, r, VALUE)
    query = Query(a, r, np.int64(1), own_distance, np.int64(0), first, stop - first)
    found = np.zeros(stop - first, np.bool_)
    for level in range(first, stop):
        found[level - first] = is_level_prunable(dag, query, level)
    clean_query(dag.graph, dag.scratch, query)
    return found


@pytest.mark.parametrize(("levels", "fits"), [(MAX_LEVELS, True), (MAX_LEVELS + 1, False)])
def test_a_graph_with_too_many_levels_is_left_to_another_replacer(levels, fits):
    """A chain in which one concept has two parents."""
    chain = [(f"c{i + 1}", f"c{i}") for i in range(levels - 1)]
    distance = WuPalmer(Ontology.from_edges([*chain, ("x", "c1"), ("x", "c2")]).taxonomy())
    assert is_in_range(distance.taxonomy) == fits
    engine = replacer(distance)
    assert isinstance(engine, DagReplacer if fits else RowReplacer)
    deepest = distance.taxonomy.encode([f"c{levels - 1}"] * 50)
    words = np.random.default_rng(1).integers(0, TOP, (2, 50), dtype=np.uint64)
    done = engine.replace(ReplacementTask(deepest, np.zeros(50, np.int32), np.full(50, -0.99), *words))
    assert (done.codes != deepest).all()
    np.testing.assert_array_equal(done.distances, distance.pairs(deepest, done.codes))
