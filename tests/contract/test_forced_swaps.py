"""The contract of methods that swap values within a group: no mask of a changed value has a single possible original.

The attacker sees the masks of a group, so they know its values. Where these decide a swap, masking them again shows
which values were exchanged. Such *forced* swaps therefore take place with probability 1/2 only.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.core_parts import Batch, Column, PositionKeys
from support.graphs import taxonomies

from stream_masker import Ontology
from stream_masker.core.mechanisms import Mechanism, Microaggregation, RankSwapping

TRIALS = 40
"""The number of secrets that the attacker tries for each group."""


def masked_group(made: Mechanism, codes: np.ndarray, secret: bytes) -> np.ndarray:
    """(n,) int32: the masks of the first attribute of a group of records whose attributes are all equal."""
    keys = PositionKeys(secret, "group", 0, np.arange(codes.size, dtype=np.int64))
    columns = tuple(Column(codes.copy()) for _ in made.attributes)
    return made.mask_batch(Batch(codes.size, columns), keys).columns[0].codes


def undone_share(made: Mechanism, groups: list[np.ndarray]) -> float:
    """The share of changed values that an attacker claims to know, and is right about; all claims are right.

    Swapping shows the values of a group, in another order. The attacker masks them repeatedly, and claims the original
    of a mask that has the same one in all trials. The most frequent value of each group does not count.
    """
    right = changed = 0
    for number, codes in enumerate(groups):
        masks = masked_group(made, codes, b"the secret %d of the service" % number)
        shown = np.sort(masks)
        trials = [masked_group(made, shown, b"a secret %d of the attacker" % trial) for trial in range(TRIALS)]
        originals: dict[int, set[int]] = {}
        for trial in trials:
            for before, after in zip(shown.tolist(), trial.tolist(), strict=True):
                originals.setdefault(after, set()).add(before)
        mode = np.bincount(codes).argmax()
        moved = (masks != codes) & (codes != mode)
        changed += int(moved.sum())
        claims = [originals[mask] == {code} for mask, code in zip(masks[moved].tolist(), codes[moved], strict=True)]
        right += sum(claims)
    return right / changed if changed else 0.0


SEED = b"the seed of the swaps"
METHODS = {
    "dynamic": lambda tau, k: RankSwapping({"a": tau}, k=k, seed=SEED),
    "fixed": lambda tau, k: RankSwapping({"a": tau}, k=k, algorithm="fixed", seed=SEED),
    "multivariate": lambda tau, k: RankSwapping({"a": tau, "b": tau}, k=k, algorithm="multivariate", seed=SEED),
    "microaggregation": lambda tau, k: Microaggregation({"a": tau}, k=k, seed=SEED),
    "hybrid": lambda tau, k: Microaggregation({"a": tau}, k=k, hybrid=True, seed=SEED),
}


def in_force(made):
    """The mechanism with statistics of every concept, which are not checked."""
    made._check_masking = lambda counts: None
    made.learn_many([dict.fromkeys(made.attributes, concept) for concept in made.distances[0].taxonomy.ids])
    made.calibrate()
    return made


def siblings(pairs, near):
    """A group of pairs of siblings, each pair deeper than the one before, and values that are near all others.

    The k nearest values of a sibling are the other one and the ``near`` ones. Once these are swapped, the rest of the
    pairs is decided.
    """
    links = [(f"n{i}", "root") for i in range(near - 1)]
    for i in range(pairs):
        path = ["root", *(f"p{i}.{depth}" for depth in range(i + 2))]
        links += [*zip(path[1:], path, strict=False), (f"p{i}.a", path[-1]), (f"p{i}.b", path[-1])]
    tau = Ontology.from_edges(links).taxonomy()
    values = ["root", *(f"n{i}" for i in range(near - 1)), *(f"p{i}.{x}" for i in range(pairs) for x in "ab")]
    return tau, tau.encode(values).astype(np.int32)


def parents(kinds, times):
    """A group in which frequent values have a rare child each, whose nearest values are all its parent."""
    links = [("other", "root"), *((f"c{i}", "root") for i in range(kinds)), *((f"s{i}", f"c{i}") for i in range(kinds))]
    tau = Ontology.from_edges(links).taxonomy()
    values = [f"c{i}" for i in range(kinds)] * times + [f"s{i}" for i in range(kinds)] + ["other"] * 2 * kinds * times
    return tau, tau.encode(values).astype(np.int32)


GROUPS = {
    "pairs, k = 2": (siblings, 24, 1, 2),
    "pairs, k = 10": (siblings, 60, 9, 10),
    "parents, k = 10": (parents, 10, 15, 10),
}


@pytest.mark.parametrize("name", ["dynamic", "fixed", "multivariate"])
@pytest.mark.parametrize(("of", "kinds", "times", "k"), GROUPS.values(), ids=GROUPS)
def test_no_swap_is_forced(of, kinds, times, k, name):
    """If all forced swaps took place, the attacker would undo half of all changes or more."""
    tau, group = of(kinds, times)
    made = in_force(METHODS[name](tau, k))
    again = np.random.default_rng(1).choice(group, group.size)
    assert undone_share(made, [group, again]) == 0.0


@pytest.mark.exhaustive
@settings(max_examples=8)
@given(taxonomies(most=8), st.integers(2, 3), st.data())
@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_mask_of_a_small_group_has_several_possible_originals(name, tau, k, data):
    """Of any group, for the masks of changed values. Masks of microaggregation are values that may have stayed."""
    size = data.draw(st.integers(2 * k, 8))
    group = np.array(data.draw(st.lists(st.integers(0, len(tau) - 1), min_size=size, max_size=size)), np.int32)
    made = in_force(METHODS[name](tau, k))
    originals = defaultdict(set)
    for trial in range(200):
        for before, after in zip(
            group.tolist(), masked_group(made, group, b"secret of trial %3d" % trial).tolist(), strict=True
        ):
            originals[after].add(before)
    if name in ("microaggregation", "hybrid"):
        assert all(found >= {mask} for mask, found in originals.items() if found - {mask})
    assert all(len(found) > 1 for mask, found in originals.items() if found - {mask})
