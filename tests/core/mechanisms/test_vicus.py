"""VICUS and Random as mechanisms: values outside the window, too many values, and damaged models."""

from __future__ import annotations

import numpy as np
import pytest
from support.channels import channel, trained
from support.nominal import BANK, flat_taxonomies

from stream_masker.core.arrays import pack_array
from stream_masker.core.mechanisms import RandomTransitions, Vicus
from stream_masker.errors import StatisticsError

SEED = b"a seed.........."
TAXONOMIES = flat_taxonomies(BANK)


def made(kind=Vicus, records=BANK, taxonomies=TAXONOMIES):
    return trained(kind(taxonomies, threshold=0.4, seed=SEED), records)


@pytest.mark.parametrize("kind", [Vicus, RandomTransitions])
def test_more_than_50_values_are_refused_with_the_reason(kind):
    records = [{"a": f"v{k % 51}", "b": "uv"[k % 2]} for k in range(200)]
    with pytest.raises(StatisticsError, match=r"a has 51 values in the window, .* at most 50: .*hardly any"):
        made(kind, records, flat_taxonomies(records))
    fewer = [record for record in records if record["a"] != "v7"]
    assert len(channel(made(kind, fewer, flat_taxonomies(records)), "a", "v0")) == 50


def broken_models():
    client = made().statistics.model["client"]
    yield {}
    yield "text"
    yield {**client, "parts": pack_array(np.array([1, 2], np.int32))}
    yield {**client, "values": "no base64!"}
    yield {**client, "counts": pack_array(np.ones(5, np.int64))}


@pytest.mark.parametrize("model", list(broken_models()))
def test_a_damaged_model_is_rejected(model):
    mechanism = made()
    snapshot = mechanism.snapshot()
    snapshot["statistics"]["model"] = {**snapshot["statistics"]["model"], "client": model}
    with pytest.raises(StatisticsError):
        Vicus(TAXONOMIES, seed=SEED).restore(snapshot)
