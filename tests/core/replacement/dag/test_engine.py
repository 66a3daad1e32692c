"""Replacements in a graph: uniform among what is admissible, whatever is remembered, and whatever the batch."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from support.large import phenotypes, snomed_shaped

from stream_masker.core.distance import WuPalmer
from stream_masker.core.kernels.cache_lines import ANCESTOR_LINE
from stream_masker.core.ontology import Ontology
from stream_masker.core.replacement.dag.cache import CASES, FOUND, GROUPS, KEY, LEVELS, STATUSES, add_value
from stream_masker.core.replacement.dag.engine import DagReplacer
from stream_masker.core.replacement.dag.index import MOST_LEVELS, graph_of, is_in_range, next_above, next_line
from stream_masker.core.replacement.dag.pruning import is_too_near
from stream_masker.core.replacement.dag.sampling import LEVEL_OF_FEW, tries_of
from stream_masker.core.replacement.dag.scratch import (
    HELD,
    NO_VALUE,
    READY,
    REFERENCE,
    VALUE,
    clean,
    common_subsumer,
    hold,
    new_ancestor_scratch,
)
from stream_masker.core.replacement.generic import GenericReplacer
from stream_masker.core.replacement.rule import NO_REFERENCE, ReplacementTask
from stream_masker.core.replacement.select import replacer
from stream_masker.errors import ParameterError

TOP = 1 << 64
DRAWS = 20_000


@pytest.fixture(scope="module")
def d():
    return WuPalmer(snomed_shaped(3_000))


def values(d, size, seed=3) -> ReplacementTask:
    """Values with references near and far."""
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
    """The concepts at the distance ``level`` of a that meet the sign condition, by looking at all."""
    at = d.to_all(a) == level
    if r not in (NO_REFERENCE, a):
        to_r = d.to_all(r)
        at &= to_r > to_r[a] if noise > 0 else to_r < to_r[a]
    return np.flatnonzero(at)


def chi_square(codes, among) -> tuple[float, float]:
    """The statistic of draws that should be uniform, and what it exceeds with a chance of about 1e-5."""
    found = np.searchsorted(among, codes)
    np.testing.assert_array_equal(among[found], codes)
    expected = codes.size / among.size
    counts = np.bincount(found, minlength=among.size)
    freedom = among.size - 1
    return float(((counts - expected) ** 2 / expected).sum()), freedom + 4.3 * np.sqrt(2 * freedom) + 14


def test_draws_are_uniform_among_what_is_admissible(d):
    """For levels of every size and share: those that tries find, and those that have to be listed."""
    chooser = DagReplacer(d, candidates="all", calibrated=False)
    tried, sizes = 0, []
    for i in range(400):
        one = rows(values(d, 400), [i] * DRAWS)
        if tried == 40 or one.noise[0] == 0:
            break
        first = chooser.replace(rows(one, slice(1)))
        among = admissible(d, one.codes[0], one.references[0], one.noise[0], first.distances[0])
        if first.flags[0] or not 2 <= among.size <= DRAWS // 20:
            continue
        ties = np.random.default_rng(i).integers(0, TOP, DRAWS, dtype=np.uint64)
        drawn = chooser.replace(ReplacementTask(one.codes, one.references, one.noise, one.rounding, ties))
        statistic, limit = chi_square(drawn.codes, among)
        assert statistic < limit
        tried += 1
        sizes.append(among.size)
    assert tried == 40
    assert min(sizes) <= LEVEL_OF_FEW < 50 < max(sizes)


@pytest.mark.parametrize("remembered", [0, 5_000])
@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("candidates", ["all", "leaves"])
@pytest.mark.parametrize("taxonomy", [phenotypes, lambda: snomed_shaped(3_000)], ids=["hpo", "made up"])
def test_memory_changes_nothing(remembered, calibrated, candidates, taxonomy):
    """Nor does the order, nor the batch: each value alone, by a chooser that remembers next to nothing."""
    distance = WuPalmer(taxonomy())
    task = rows(values(distance, 300), np.random.default_rng(5).integers(0, 300, 3_000))
    whole = DagReplacer(distance, candidates=candidates, calibrated=calibrated)
    forgetful = DagReplacer(distance, candidates=candidates, calibrated=calibrated, remembered=remembered)
    expected = whole.replace(task)
    np.testing.assert_array_equal(whole.replace(task).codes, expected.codes)
    order = np.random.default_rng(6).permutation(3_000)
    for which in np.split(order, [*range(1, 1_000), 1_000, 2_500]):
        found = forgetful.replace(rows(task, which))
        np.testing.assert_array_equal(found.codes, expected.codes[which])
        np.testing.assert_array_equal(found.distances, expected.distances[which])
        np.testing.assert_array_equal(found.flags, expected.flags[which])


def test_what_is_near_to_a_reference_over_several_subsumers_as_deep_is_not_missed():
    """The deepest common ancestors of f and g are c and d, as deep; over c, the first one, the paths are shorter."""
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


def test_memory_is_bounded(d):
    """Many more values and cases than fit."""
    chooser = DagReplacer(d, candidates="all", calibrated=True, remembered=2_000)
    memo = chooser._memo
    most = []
    for seed in range(20):
        chooser.replace(values(d, 2_000, seed))
        most.append(memo.used.copy())
        assert memo.used[LEVELS] <= memo.levels.size
        assert memo.used[GROUPS] <= memo.groups.size // 2
        assert memo.used[CASES] <= memo.cases.shape[0] // 2
        assert memo.used[STATUSES] <= memo.statuses.size
        assert memo.used[FOUND] <= memo.found.size
    assert memo.levels.size < 10_000
    assert len({used.tobytes() for used in most}) > 1


def test_what_comes_again_is_not_forgotten(d):
    """While many others come once; and it is forgotten when it has stayed away."""
    chooser = DagReplacer(d, candidates="all", calibrated=True, remembered=20_000)
    memo = chooser._memo
    regular = of_few_codes(d, 100, seed=1)
    expected = chooser.replace(regular)
    chooser.replace(regular)
    kept = cases(memo)
    made_room(chooser, d, seeds=range(10, 60))
    assert kept <= cases(memo)
    assert memo.used[CASES] < memo.cases.shape[0] // 4
    again = chooser.replace(regular)
    np.testing.assert_array_equal(again.codes, expected.codes)
    np.testing.assert_array_equal(again.distances, expected.distances)
    made_room(chooser, d, seeds=range(60, 110))
    assert kept <= cases(memo)
    made_room(chooser, d, seeds=range(110, 160))
    assert not kept & cases(memo)


def of_few_codes(d, size, seed) -> ReplacementTask:
    """So few that the memo has room for them all, but not for all their cases."""
    task = values(d, size, seed)
    return ReplacementTask(2_000 + task.codes % 150, task.references, task.noise, task.rounding, task.ties)


def cases(memo) -> set[int]:
    return set(memo.cases[memo.cases[:, KEY] != 0, KEY].tolist())


def made_room(chooser, d, seeds) -> None:
    """Values that come once, until room has been made for some."""
    for seed in seeds:
        before = int(chooser._memo.used[CASES])
        chooser.replace(of_few_codes(d, 200, seed))
        if chooser._memo.used[CASES] < before:
            return
    raise AssertionError("there was room for all")


def test_the_room_for_a_value_is_empty_afterwards(d):
    chooser = DagReplacer(d, candidates="all", calibrated=True)
    chooser.replace(values(d, 2_000))
    assert not chooser._work.marks.any()
    assert chooser._work.state[READY] == 0
    assert chooser._work.state[HELD] == NO_VALUE


@pytest.mark.parametrize("candidates", ["all", "leaves"])
def test_remote_candidates_share_the_root_alone(d, candidates):
    remote = DagReplacer(d, candidates=candidates, calibrated=True)._lists.remote
    assert remote.size > 1
    assert candidates == "all" or d.taxonomy.leaf[remote].all()
    ids = d.taxonomy.decode(remote)
    assert {d.taxonomy.lcs(one, other) for one in ids for other in ids if one != other} == {d.taxonomy.root}


def test_tries_depend_on_the_number_of_members_alone_and_end():
    assert [tries_of(size) for size in (1, 8, 9, 64, 1_000_000)] == [0, 0, 4, 6, 4096]


def test_negative_memory_is_refused(d):
    with pytest.raises(ParameterError, match="remembered"):
        DagReplacer(d, candidates="all", calibrated=True, remembered=-1)


def test_lines_hold_the_closure(d):
    """Of concepts with fewer ancestors than a line has room for, as many, and more."""
    graph = graph_of(d.taxonomy)
    counts = set()
    for c in range(len(d.taxonomy)):
        row = slice(graph.offsets[c], graph.offsets[c + 1])
        expected = list(zip(graph.ancestors[row].tolist(), graph.paths[row].tolist(), strict=True))
        counts.add(min(max(len(expected), ANCESTOR_LINE - 1), 2 * ANCESTOR_LINE))
        found, at = [], ANCESTOR_LINE * c
        for _ in expected:
            x, path, at = next_above.py_func(graph, at)
            found.append((x, path))
        assert found == expected
        lines, at = 0, ANCESTOR_LINE * c
        while at > 0 or lines == 0:
            lines, at = lines + 1, next_line.py_func(graph, at)
        assert lines == 1 + max(0, (len(expected) - 2) // (ANCESTOR_LINE - 1))
    assert counts == set(range(ANCESTOR_LINE - 1, 2 * ANCESTOR_LINE + 1))


@pytest.mark.parametrize("side", [VALUE, REFERENCE])
def test_subsumers_are_found_by_marks(d, side):
    """Those of the closure's rows: the deepest, of these that with the shortest paths, of these the last."""
    tau = d.taxonomy
    up, graph = tau.closure, graph_of(tau)
    work = new_ancestor_scratch(len(tau), int(np.diff(up.offsets).max()), int(tau.depth.max()), ahead=1)
    rng = np.random.default_rng(2)
    long_rows = rng.permutation(np.flatnonzero(np.diff(up.offsets) > 2 * ANCESTOR_LINE))
    for a in [*rng.integers(0, len(tau), 20), *long_rows[:5]]:
        mine = slice(up.offsets[a], up.offsets[a + 1])
        work.marks[:] = 0
        work.marks[2 * up.ancestors[mine] + side] = up.paths[mine] + 1
        work.marks[2 * rng.integers(0, len(tau), 99) + 1 - side] = 7
        for c in [*rng.integers(0, len(tau), 50), *long_rows[-5:]]:
            yours = slice(up.offsets[c], up.offsets[c + 1])
            common, at, other = np.intersect1d(up.ancestors[mine], up.ancestors[yours], return_indices=True)
            links = up.paths[mine][at].astype(int) + up.paths[yours][other]
            best = max(range(common.size), key=lambda i: (tau.depth[common[i]], -links[i], common[i]))
            assert subsumer(graph, work, c, side) == (common[best], tau.depth[common[best]], links[best])


@njit
def subsumer(graph, work, c, side):
    return common_subsumer(graph, work, c, side)


def test_levels_that_are_too_near_are_empty(d):
    """Whatever is ruled out as a whole has no admissible member, by all distances; and much is ruled out."""
    chooser = DagReplacer(d, candidates="all", calibrated=False)
    graph, lists, memo, work = chooser._graph, chooser._lists, chooser._memo, chooser._work
    empty, ruled_out = 0, 0
    for a, r in np.random.default_rng(8).integers(1, 3_000, (150, 2)):
        if a == r:
            continue
        if memo.value_at[a] == 0:
            add_value(graph, lists, memo, a)
        first, stop = memo.first_level[memo.value_at[a] : memo.value_at[a] + 2]
        found = too_near(graph, lists, memo, work, a, r, first, stop)
        expected = [admissible(d, a, r, 1.0, level).size == 0 for level in memo.levels[first:stop]]
        assert not (found & ~np.array(expected)).any()
        empty, ruled_out = empty + sum(expected), ruled_out + found.sum()
    assert empty / 4 < ruled_out < empty


def test_a_level_is_not_ruled_out_where_a_deeper_subsumer_has_long_paths():
    """c and r lie over s as near to each other as a and r do, but u is deeper, and just far enough from both."""
    links = ("st", "as", "us", "xu", "yu", "cx", "cs", "ry", "rs")
    d = WuPalmer(Ontology.from_edges([(child, parent) for child, parent in links]).taxonomy())
    a, c, r = d.taxonomy.encode(["a", "c", "r"])
    assert c in admissible(d, a, r, 1.0, d("a", "c"))
    words = np.random.default_rng(1).integers(0, TOP, (2, 500), dtype=np.uint64)
    task = ReplacementTask(np.full(500, a), np.full(500, r), np.full(500, 0.9 * d("a", "c")), *words)
    assert c in DagReplacer(d, candidates="all", calibrated=False).replace(task).codes


@njit
def too_near(graph, lists, memo, work, a, r, first, stop):
    hold(graph, work, a)
    _, depth, links = common_subsumer(graph, work, r, VALUE)
    case = (a, r, np.int64(1), (depth, links))
    found = np.zeros(stop - first, np.bool_)
    for level in range(first, stop):
        found[level - first] = is_too_near(graph, lists, memo, work, case, level)
    clean(graph, work, case)
    return found


@pytest.mark.parametrize(("levels", "fits"), [(MOST_LEVELS, True), (MOST_LEVELS + 1, False)])
def test_a_graph_of_too_many_levels_is_for_another_replacer(levels, fits):
    """A chain with one concept of two parents."""
    chain = [(f"c{i + 1}", f"c{i}") for i in range(levels - 1)]
    distance = WuPalmer(Ontology.from_edges([*chain, ("x", "c1"), ("x", "c2")]).taxonomy())
    assert is_in_range(distance.taxonomy) == fits
    chooser = replacer(distance)
    assert isinstance(chooser, DagReplacer if fits else GenericReplacer)
    deepest = distance.taxonomy.encode([f"c{levels - 1}"] * 50)
    words = np.random.default_rng(1).integers(0, TOP, (2, 50), dtype=np.uint64)
    done = chooser.replace(ReplacementTask(deepest, np.zeros(50, np.int32), np.full(50, -0.99), *words))
    assert (done.codes != deepest).all()
    np.testing.assert_array_equal(done.distances, distance.pairs(deepest, done.codes))
