"""Fields of small and of sliding windows: an α never fails, and the last field is the start of the next one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.field_windows import TAU, Enumerated, Window, batch_of

from stream_masker import SemanticTransport
from stream_masker.core.mechanisms.transport.field import solver
from stream_masker.core.mechanisms.transport.field.solver import LAW_ERROR
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import count_batch
from stream_masker.errors import StatisticsError

SEED = b"a seed of many bytes"
LINKS = ((1, 0), (1, 2))


def new(attributes=3, **target):
    names = [f"x{j}" for j in range(attributes)]
    return SemanticTransport(dict.fromkeys(names, TAU), target=target, seed=SEED)


def counts_of(codes):
    return count_batch(batch_of(codes), [len(TAU)] * len(codes))


def restored(made, codes, version=1):
    made.restore(made.snapshot_of(made.compute(counts_of(codes), version=version)))
    return made


def small_window(rng, attributes, size, kinds, determined):
    """Columns with two values or more; a determined one is a function of the first one."""
    codes = [np.concatenate([np.arange(2), rng.integers(0, kinds, size - 2)])]
    for _ in range(attributes - 1):
        permuted = rng.permutation(kinds)[codes[0]]
        other = np.where(rng.random(size) < determined, permuted, rng.integers(0, kinds, size))
        codes.append(np.where(np.arange(size) < 2, permuted, other))
    found = [np.sort(rng.choice(len(TAU), kinds, replace=False))[column].astype(np.int32) for column in codes]
    for column in found:
        column[2:][rng.random(size - 2) < rng.choice([0.0, 0.3])] = -1
    return found


def changes_too_little(made, codes):
    """Whether masking would leave more values than it may; otherwise the model is restored."""
    try:
        restored(made, codes)
    except StatisticsError as error:
        if "must change at least" not in str(error):
            raise
        return True
    return False


@settings(max_examples=60)
@given(
    st.integers(0, 10_000),
    st.integers(3, 4),
    st.integers(4, 60),
    st.integers(2, 6),
    st.sampled_from([0.0, 0.8, 1.0]),
    st.sampled_from([0.05, 0.3, 1.0, 10.0]),
)
@example(1040, 3, 4, 2, 0.0, 0.05)  # two attributes determine each other: what they can move is within the tolerance
def test_every_window_allows_every_alpha(seed, attributes, size, kinds, determined, alpha):
    """Also windows whose attributes determine each other, and of a few records, unless nearly nothing may change."""
    codes = small_window(np.random.default_rng(seed), attributes, size, kinds, determined)
    made = new(attributes, alpha=alpha)
    if changes_too_little(made, codes):
        return
    masked = made.mask_batch(batch_of(codes), PositionKeys(b"sixteen bytes, more", "t", 0, np.arange(size)))
    for before, after in zip(codes, masked.columns, strict=True):
        np.testing.assert_array_equal(after.codes < 0, before < 0)
        assert set(after.codes.tolist()) <= set(before.tolist())
    for problem, solution in ((f.problem, f.solution) for f in made._prepared_statistics().prepared_fields):
        for node, law in enumerate(solution.pairs, start=1):
            # contradictory distances of few records may need more than MAX_STEPS
            assert np.abs(law - problem.links.law(node)).sum() <= 1.5 * LAW_ERROR


@pytest.mark.parametrize(
    "target",
    [{"rmse": 0.9}, {"rmse": {"x0": 0.9, "x1": 0.2, "x2": 0.2}}, {"vulnerability": 0.1}, {"epsilon": 0.001}],
    ids=str,
)
def test_other_targets_say_the_range(target):
    codes = small_window(np.random.default_rng(1), 3, 60, 4, 0.5)
    with pytest.raises(StatisticsError, match="cannot be met: this window allows"):
        restored(new(**target), codes)


@pytest.mark.parametrize("share", [0.15, 0.4, 0.8])
def test_an_rmse_within_the_range_is_met(share):
    codes = small_window(np.random.default_rng(2), 3, 400, 5, 0.5)
    most = restored(new(alpha=10.0), codes).disclosure().rmse
    wanted = {name: share * rmse for name, rmse in most.items()}
    made = restored(new(rmse=wanted), codes)
    rmse = made.disclosure().rmse
    assert {name: rmse[name] for name in wanted} == pytest.approx(wanted, rel=3e-3)


def evaluations(monkeypatch, function, *arguments, **named):
    """The number of times that all records are evaluated, and the result."""
    made, original = list[None](), solver.evaluate

    def counted(*given):
        made.append(None)
        return original(*given)

    with monkeypatch.context() as patched:
        patched.setattr(solver, "evaluate", counted)
        result = function(*arguments, **named)
    return len(made), result


def stream(kind, size=6600):
    """Three columns of which the last tenth has other values in place of some; ``kind``: what changes."""
    window = Window.random(np.random.default_rng(3), (-1, 0, 0), kinds=6, absent=0.1, size=size)
    codes = [column.copy() for column in window.codes]
    seen = set(codes[0].tolist())
    unseen = [code for code in range(len(TAU)) if code not in seen]
    rng = np.random.default_rng(4)
    late = np.arange(size) >= 6000
    some = (codes[0] >= 0) & (rng.random(size) < 0.3)
    if kind == "appear":
        codes[0][late & some] = unseen[0]
    elif kind == "disappear":
        codes[0][(np.arange(size) < 600) & some] = unseen[0]
    elif kind == "both":
        codes[0][late & some] = unseen[0]
        codes[0][(np.arange(size) < 600) & some] = unseen[1]
    return codes


@pytest.mark.parametrize("target", [{"alpha": 0.5}, {"rmse": 0.2}], ids=str)
@pytest.mark.parametrize("kind", ["none", "appear", "disappear", "both"])
def test_a_window_that_slid_finds_the_same_channel_in_fewer_steps(kind, target, monkeypatch):
    """New values cost steps: with an α, which takes few, as many as without the last field."""
    codes = stream(kind)
    first, second = ([column[start : start + 6000] for column in codes] for start in (0, 600))
    made = restored(new(**target), first)
    warm, following = evaluations(monkeypatch, made.compute, counts_of(second), version=2)
    cold, alone = evaluations(monkeypatch, new(**target).compute, counts_of(second), version=1)
    assert warm < cold or (warm == cold and kind != "none" and "alpha" in target)
    fields = []
    for statistics in (following, alone):
        other = new(**target)
        other.restore(other.snapshot_of(statistics))
        fields.append(other._prepared_statistics())
    (one,), (two,) = (prepared.fields for prepared in fields)
    assert one.links.attributes == two.links.attributes
    np.testing.assert_allclose(one.sharpness, two.sharpness, rtol=0.02)
    problem = fields[0].prepared_fields[0].problem
    masks = [Enumerated.of(problem, field, problem.records) for field in (one, two)]
    weights = problem.records.weights.reshape(-1, *(1 for _ in one.links.sizes))
    assert (weights * np.abs(masks[0].masks - masks[1].masks)).sum() / 2.0 < 0.01
