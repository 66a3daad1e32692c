"""Reading of snapshots that the release before has written: format 4 of semantic transport."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_masker import Ontology, SemanticTransport
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.wire.fields import MESSAGE_FORMAT

ROOT = Path(__file__).parents[4]
RECORDED = json.loads(gzip.decompress((ROOT / "tests/data/transport-format-4.json.gz").read_bytes()))
TAU = Ontology.from_edges([tuple(edge) for edge in RECORDED["edges"]]).taxonomy()
NAMES = {"single": ("first",), "pair": ("first", "second")}


def reader(kind: str, **parameters: Any) -> SemanticTransport:
    parameters = {"target": {"alpha": 0.3}, "least": 2, **parameters}
    return SemanticTransport(dict.fromkeys(NAMES[kind], TAU), window=2_000, seed=b"sixteen bytes, more", **parameters)


def snapshot(kind: str) -> dict[str, Any]:
    return copy.deepcopy(RECORDED[kind]["snapshot"])


@pytest.mark.parametrize("kind", NAMES)
def test_a_snapshot_of_the_release_before_masks_by_the_same_channel(kind: str) -> None:
    """The probabilities were recorded from the release that wrote the snapshot."""
    assert snapshot(kind)["format"] == 4
    mechanism = reader(kind)
    mechanism.restore(snapshot(kind))
    for value, recorded in RECORDED[kind]["channel"].items():
        channel = mechanism.channel("first", value)
        assert {c: channel.get(c, 0.0) for c in recorded} == pytest.approx(recorded, abs=2e-5)
    records = [dict.fromkeys(NAMES[kind], "C00")] * 4_000
    masked = mechanism.mask_many(records, keys=[b"%d" % i for i in range(len(records))])
    share = np.mean([each["first"] == "C00" for each in masked])
    assert mechanism.snapshot()["format"] == SemanticTransport.snapshot_format
    assert 0 < share < 1


def test_a_snapshot_is_written_in_the_current_format() -> None:
    mechanism, other = reader("pair"), reader("pair")
    mechanism.restore(snapshot("pair"))
    other.restore(json.loads(json.dumps(mechanism.snapshot())))
    assert other.channel("first", "C00") == pytest.approx(mechanism.channel("first", "C00"), abs=1e-12)


def test_a_calibration_starts_from_it() -> None:
    mechanism = reader("pair")
    mechanism.restore(snapshot("pair"))
    codes = list(RECORDED["pair"]["channel"])
    rng = np.random.default_rng(1)
    mechanism.learn_many([{"first": a, "second": b} for a, b in rng.choice(codes, (500, 2))])
    assert mechanism.calibrate().records == 500


@pytest.mark.parametrize(
    ("changes", "parameters", "text"),
    [
        ({}, {"target": {"alpha": 0.3, "certainty": 0.5}}, "does not keep the limits"),
        ({"tree": {}}, {}, "one or two attributes"),
        ({"single": []}, {}, "not that of the mechanism"),
        ({"pair": {}}, {}, "has no counts"),
    ],
)
def test_what_cannot_be_masked_with_is_refused(changes: dict[str, Any], parameters: dict[str, Any], text: str) -> None:
    given, mechanism = snapshot("pair"), reader("pair", **parameters)
    given["statistics"]["model"] |= changes
    with pytest.raises(StatisticsError, match=text):
        mechanism.restore(given)


def test_every_format_is_named_in_the_changelog_and_among_the_failure_modes() -> None:
    kinds = set(MECHANISMS.values())
    others = {kind.snapshot_format for kind in kinds if kind is not SemanticTransport}
    assert (len(kinds) > 5, others, MESSAGE_FORMAT) == (True, {1}, 1)
    current, [earlier] = SemanticTransport.snapshot_format, SemanticTransport.earlier_formats
    changes, page = (
        " ".join((ROOT / name).read_text().split()) for name in ("CHANGELOG.md", "docs/kafka/failure-modes.md")
    )
    assert f"model of transport has format {current}" in changes
    assert f"format {earlier} of semantic transport" in changes
    assert f"| {current} | semantic transport | {earlier}," in page


def test_no_format_before_it_is_read() -> None:
    with pytest.raises(StatisticsError, match="format differs"):
        reader("pair").restore({**snapshot("pair"), "format": 3})
