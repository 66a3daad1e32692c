"""Publication: published figures reveal nothing about a few records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.distance import WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.risk.risk import Disclosure, Guess, Membership, Risk
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import count_batch
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.statistics.utility import utility
from stream_masker.errors import ParameterError
from stream_masker.pipeline.publication import LabelledConcept, Publication
from stream_masker.pipeline.risk import VersionRisk

CLASSES, LEAVES, RECORDS, LEAST = 6, 5, 2_000, 20
CODES = [f"c{i}{j}" for i in range(CLASSES) for j in range(LEAVES)]
TAU = Ontology.from_edges(
    [*((f"c{i}", "root") for i in range(CLASSES)), *((code, code[:2]) for code in CODES)]
).taxonomy()
NAMES = ("one", "two")
DISTANCES = (WuPalmer(TAU), WuPalmer(TAU))
TAXONOMIES = dict.fromkeys(NAMES, TAU)
SHOWN = Publication(TAXONOMIES, LEAST)
EXACT = Publication(TAXONOMIES, 1)
BANDS = ("usual", "rare", "limit")
RARE = ("c4", "c5")
"""Classes with a few records in every window."""


def window(seed: int, person: str | None = None) -> list[list[str]]:
    """Return the codes of a window by record; ``person``: the first attribute's code of the last record."""
    rng = np.random.default_rng(seed)
    frequent, rare = CODES[: 4 * LEAVES], CODES[4 * LEAVES :]
    records = [list(rng.choice(frequent, 2)) for _ in range(RECORDS - 11)]
    records += [[code, code] for code in rng.choice(rare, 10)]
    return [*records, [person or "c00", "c00"]]


def statistics(records: list[list[str]], version: int = 1, previous: Statistics | None = None) -> Statistics:
    columns = tuple(Column(TAU.encode([record[j] for record in records])) for j in range(2))
    counts = count_batch(Batch(len(records), columns), [len(TAU)] * 2)
    return compute_statistics(counts, NAMES, DISTANCES, version=version, previous=previous)


def figures(published: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a message with its place."""
    if isinstance(published, Mapping):
        for key, value in published.items():
            yield from figures(value, f"{place}.{key}")
    elif isinstance(published, list):
        for i, value in enumerate(published):
            yield from figures(value, f"{place}[{i}]")
    elif isinstance(published, float | int):
        yield place, published


def seen(publication: Publication, person: str | None) -> dict[str, float]:
    """Return all published figures of two versions, the second of which includes a person's record.

    Null bands are left out: they are those of random divisions, which any record changes.
    """
    before = statistics(window(1))
    after = statistics(window(2, person), 2, before)
    shown = [publication.statistics(one) for one in (before, after)]
    drift = publication.drift(before, after, DISTANCES, None).to_dict()
    for attribute in drift["attributes"].values():
        assert not {one["concept"][:2] for one in attribute.pop("moved")} & set(RARE) or publication is EXACT
    gained = utility(before, after, (Distortion(9, 1.234567, 2.345678),) * 2, 0.3, DISTANCES)
    utilities = publication.coarsened(gained, after.records).to_dict()
    observed = {"statistics": [{**one.to_dict(), "seen": {}} for one in shown], "drift": drift, "utility": utilities}
    return {place: value for place, value in figures(observed) if not place.endswith(BANDS)}


def about_classes(found: dict[str, float]) -> dict[str, float]:
    """Return the figures that are about classes, unknown or novel values, not about the whole window."""
    kinds = ("unknown", "novel", "divergence", "psi")
    return {place: value for place, value in found.items() if any(kind in place for kind in kinds)}


def test_nothing_about_classes_tells_which_rare_code_a_person_has() -> None:
    codes = [code for code in CODES if code[:2] in RARE]
    published = [about_classes(seen(SHOWN, code)) for code in codes]
    assert all(one == published[0] for one in published)
    exact = {tuple(about_classes(seen(EXACT, code)).values()) for code in codes}
    assert len(exact) > 1, "the exact figures tell the class"


def test_one_record_moves_every_other_figure_by_at_most_one_step() -> None:
    step = min(0.01, LEAST / RECORDS)
    before = seen(SHOWN, None)
    moved = 0
    for code in CODES[::3]:
        after = seen(SHOWN, code)
        assert after.keys() == before.keys()
        changes = {place: abs(after[place] - before[place]) for place in before}
        assert max(changes.values()) <= step * (1 + 1e-9), code
        moved += sum(change > 0 for change in changes.values())
    assert moved < 0.05 * len(before) * len(CODES[::3])


def test_every_figure_is_rounded() -> None:
    for place, value in seen(SHOWN, "c40").items():
        if not about_classes({place: value}) and isinstance(value, float):
            assert round(value, 12) == pytest.approx(round(value * 100) / 100, abs=1e-12), place


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (1, 0), (19, 0), (20, 20), (39, 20), (40, 40)])
def test_shares_are_rounded_down_to_whole_groups_of_records(count: int, shown: int) -> None:
    exact = replace(
        statistics(window(1)),
        unknown=dict.fromkeys(NAMES, count / RECORDS + 1e-12),
        novel=dict.fromkeys(NAMES, count / RECORDS + 1e-12),
    )
    published = SHOWN.statistics(exact)
    assert published.novel["one"] == published.unknown["two"] == pytest.approx(shown / RECORDS)


def mean_of(codes: list[str], other: list[str]) -> str | None:
    return shown_mean(statistics([[a, b] for a, b in zip(codes, other, strict=True)]))


def shown_mean(exact: Statistics) -> str | None:
    mean = SHOWN.means(exact).get("one")
    return None if mean is None else mean.concept


def test_smean_is_shown_if_its_class_has_enough_records() -> None:
    many = CODES[: 2 * LEAVES] * 10
    assert mean_of(["c00"] * 60 + ["c10"] * 40, many) == "c00"
    assert mean_of(["c00"] * 19, many[:19]) is None
    assert mean_of(["c00"] * 20, many[:20]) == "c00"


def test_labelled_means_are_those_that_are_shown() -> None:
    exact = statistics([["c00", code] for code in CODES[:19]])
    assert SHOWN.means(exact) == {}
    exact = statistics([["c00", code] for code in CODES[:20]])
    assert SHOWN.means(exact)["one"] == LabelledConcept("c00", TAU.label("c00"))


def test_smean_above_the_classes_has_the_records_below_it() -> None:
    every = CODES * 4
    exact = statistics([[code, code] for code in every])
    assert shown_mean(replace(exact, mean={"one": "root", "two": "root"})) == "root"
    assert shown_mean(replace(exact, mean={"one": "c4", "two": "root"})) == "c4"
    few = statistics([[code, code] for code in CODES[:19]])
    assert shown_mean(replace(few, mean={"one": "root", "two": "root"})) is None


def test_without_limits_everything_is_exact() -> None:
    exact = statistics(window(1))
    assert EXACT.statistics(exact) is exact


def test_rare_sensitive_groups_are_not_shown() -> None:
    """Of 1,000 records, 19 are of a group and 21 of another one; chapters and blocks are always shown."""
    groups = {"rare": Membership(0.019, 1.0, 1.0), "frequent": Membership(0.021, 1.0, 1.0)}
    learned = {"one": Disclosure(0.9, 0.9, 1.0, 0.9, 0.9, {"chapter": Guess(0.9, 0.9, 1.0, 0.9, 0.9)}, groups, 0.0)}
    shown = SHOWN.risk(VersionRisk(Risk(learned, learned, {"one": 0.9}, 0.9, {"one": 0.1}), 0.0, 0.0, ()), 1_000).risk
    assert shown is not None
    assert shown.record is not None
    for each in (shown.value, shown.record):
        assert set(each["one"].sensitive) == {"frequent"}
        assert set(each["one"].levels) == {"chapter"}
    assert shown.value["one"].sensitive["frequent"].greatest == 1.0
    assert SHOWN.risk(VersionRisk(None, 1.0, 1.0, ("reason",)), 1_000).risk is None


def test_limits_are_checked() -> None:
    with pytest.raises(ParameterError):
        Publication(TAXONOMIES, 0)
