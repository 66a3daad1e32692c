"""A transport of a window that is full of one value: the other values are masked no less."""

from __future__ import annotations

import pytest
from flooding import TREE, changed_of_others, flooded

from stream_masker.core.mechanisms import mechanism


def changed(share: float, values: int) -> float:
    """Return the share of the other values that a transport changes, and check that its statistics are accepted."""
    counts = flooded(share, values)
    made = mechanism("semantic_transport")({"code": TREE}, target={"alpha": 0.3}, seed=b"seed............")
    found, required = changed_of_others(made.with_statistics(made.compute(counts, version=1), counts), counts)
    assert found >= required > 0.04
    return found


@pytest.mark.parametrize("values", [12, 72], ids=["few values", "many values"])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
def test_a_flood_of_one_value_does_not_leave_the_others_as_they_are(share: float, values: int) -> None:
    """The mean squared distance gets smaller, but it is that of the whole window, and the other values are rare."""
    assert changed(share, values) > changed(0.0, values)
