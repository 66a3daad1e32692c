"""The risk that the statistics tell without a window's counts, as a worker has them."""

from __future__ import annotations

import numpy as np
import pytest
from support.flooding import LEAVES, TREE

from stream_masker import SemanticTransport
from stream_masker.summary import three_sentences

SEED = b"a seed of sixteen bytes"


def calibrated(kind: str, **parameters: object) -> SemanticTransport:
    draw = np.random.default_rng(3)
    first = draw.integers(0, 40, 2_000)
    others = np.where(draw.random((2_000, 2)) < 0.5, first[:, None], draw.integers(0, 40, (2_000, 2)))
    records: list[dict[str, object]] = [{"a": LEAVES[k], "sex": "FM"[k % 2]} for k in first]
    for record, (second, third) in zip(records, others, strict=True):
        if kind == "list":
            record["b"] = [LEAVES[second], LEAVES[third]]
        elif kind != "single":
            record["b"] = LEAVES[second]
        if kind == "three":
            record["c"] = LEAVES[third]
    names = [name for name in records[0] if name != "sex"]
    made = SemanticTransport(dict.fromkeys(names, TREE), window=2_000, seed=SEED, **parameters)
    made.learn_many(records)
    made.calibrate()
    return made


@pytest.mark.parametrize("kind", ["single", "pair", "three", "list"])
def test_a_worker_says_as_much_as_who_has_the_counts(kind: str) -> None:
    """Of a list, one element counts: its length is not in the model."""
    made = calibrated(kind)
    worker = SemanticTransport(dict.fromkeys(made.attributes, TREE), window=2_000, seed=SEED)
    worker.restore(made.snapshot())
    expected, exact = worker.expected_risk(), made.risk()
    assert expected is not None
    for name, learned in expected.value.items():
        assert learned.prior == pytest.approx(exact.value[name].prior)
        assert learned.vulnerability == pytest.approx(exact.value[name].vulnerability)
    assert expected.unchanged == pytest.approx(exact.unchanged)
    learned, stays, _ = three_sentences(expected)
    assert "without masks" in learned
    assert "of its chapter" in learned
    assert "stay as they were" in stays


def test_the_laws_of_contexts_are_not_averaged_without_counts() -> None:
    assert calibrated("pair", context={"sex": ["F", "M"]}).expected_risk() is None
