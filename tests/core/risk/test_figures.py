"""The figures of the documentation, computed again: real discharges, and the events of ``examples/nested``.

One attacker is meant: he knows how often codes and pairs occur and how masks are drawn, and sees all masks of a record.
"""

from __future__ import annotations

import gzip
import re
from functools import cache, cached_property

import numpy as np
import orjson
import pytest
from golden.examples import FOLDER
from support.data import discharges, icd9cm
from support.documentation import DOCS, ROOT
from support.real_codes import as_batch, in_force, real_pairs, real_rows
from support.transport_law import map_in_force, pair_likelihoods

from stream_masker import Ontology, SemanticNoise, SemanticTransport
from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.random import PositionKeys
from stream_masker.core.risk.law import Tuples
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.pipeline.risk import best_guess, guess_chances
from tests.core.risk.test_attack import real as real_lists

pytestmark = pytest.mark.exhaustive
NAMES = ("principal", "secondary")
SEED = b"a seed of sixteen bytes"
DEFAULT = {"alpha": 1.0, "reference": "pair", "rounding": "calibrated", "candidates": "observed"}
PAPER = {"alpha": 0.3, "reference": "pair", "rounding": "ceil", "candidates": "all"}
MAKERS = {"default": (SemanticNoise, DEFAULT), "transport": (SemanticTransport, {}), "paper": (SemanticNoise, PAPER)}
METHODS = " ".join((DOCS / "methods.md").read_text().split())
SECURITY = " ".join((DOCS / "security.md").read_text().split())


class Masked:
    """A method with the statistics of a batch in force, and the masks that it draws."""

    def __init__(self, name, tau, batch):
        kind, parameters = MAKERS[name]
        self.tau, self.batch = tau, batch
        self.made = in_force(kind(dict.fromkeys(NAMES, tau), seed=SEED, **parameters), batch)
        self.counts = count_batch(batch, [len(tau)] * 2)
        self.drawn = self.made.mask_batch(batch, PositionKeys(b"secret of the figures", "t", 0, np.arange(batch.size)))

    @cached_property
    def after(self):
        """The statistics of the masks."""
        counts = count_batch(Batch(self.batch.size, self.drawn.columns), [len(self.tau)] * 2)
        return compute_statistics(counts, NAMES, self.made.distances, version=1)

    def variation(self):
        """The total variation of the laws of the principal code, of all records that were drawn."""
        laws = [np.bincount(c[0].codes, minlength=len(self.tau)) for c in (self.batch.columns, self.drawn.columns)]
        return np.abs(laws[0] - laws[1]).sum() / 2 / self.batch.size

    def likelihoods(self):
        """The window's pairs with their shares, and the law of masks given each of them."""
        tuples = Tuples.of(self.counts, (0, 1), [len(self.tau)] * 2)
        if self.made.name == "semantic_transport":
            likelihoods = pair_likelihoods(self.made, tuples.codes)
            return tuples.codes, lambda masked: likelihoods(np.array(masked).T)
        values = [np.unique(c.codes).astype(np.int32) for c in self.batch.columns]
        channels = tuple(self.made.attribute_channel(j, values[j], self.counts) for j in (0, 1))
        return tuples.codes, self.made.mask_law(tuples, channels, self.counts)


@cache
def real(name):
    """A method on the real discharges."""
    return Masked(name, icd9cm().taxonomy(), as_batch(real_pairs()))


def row(text, name):
    """The figure of a method in a row of the table of methods."""
    (line,) = [line for line in (DOCS / "methods.md").read_text().splitlines() if line.startswith(f"| {text} |")]
    return float(line.strip("| ").split("|")[2 + list(MAKERS).index(name)])


@pytest.mark.parametrize("name", ["default", "transport", pytest.param("paper", marks=pytest.mark.scheduled)])
def test_the_table_of_methods(name):
    one = real(name)
    risk = one.made.risk(draws=4_000 if name == "paper" else 1_000)  # the rarest group needs many
    learned = risk.record["principal"]
    figures = {
        "best guess of the code is right": learned.vulnerability,
        "best guess of its block is right": learned.levels["block"].vulnerability,
        "best guess of its chapter is right": learned.levels["chapter"].vulnerability,
        "records whose code is guessed with more than 0.9": learned.certain,
        "surest guess of any record": learned.greatest,
        "codes that stay as they were": risk.unchanged["principal"],
        "distance of codes and masks (RMSE)": risk.rmse["principal"],
        "sdCor of both diagnoses, 0.259 before": one.after.correlation[0, 1],
        "total variation of the code's distribution": one.variation(),
        "√sVar, 0.593 before": one.after.variance["principal"] ** 0.5,
    }
    before = one.made.statistics
    assert [round(before.correlation[0, 1], 3), round(before.variance["principal"] ** 0.5, 3)] == [0.259, 0.593]
    assert [round(learned.prior, 2), round(learned.levels["chapter"].prior, 2)] == [0.07, 0.30]
    hiv = learned.sensitive["hiv"]
    assert hiv.likely == 0.0 if name == "transport" else hiv.likely >= 0.3 * hiv.prior
    for text, figure in figures.items():
        assert row(text, name) == pytest.approx(figure, abs=0.02), text


def test_the_other_method_is_compared_with_little_error():
    """The line "Guessed right" compares with a transport of fewer codes, which is a little easier to guess."""
    noise, transport = real("default"), real("transport")
    chances = guess_chances(noise.made, noise.counts, noise.made.risk(draws=100))
    exact = best_guess(transport.made.risk(draws=100))
    assert exact < chances["semantic_transport"] < exact + 0.01


def test_the_readme_has_the_figures_of_the_table():
    text = (ROOT / "README.md").read_text()
    shown = [re.findall(r"\| ([\d.]+) ?%? \| ([\d.]+|none) ?%? \|$", line) for line in text.splitlines()]
    found = [[0.0 if cell == "none" else float(cell) for cell in pair] for (pair,) in filter(None, shown)]
    rows = (
        "best guess of the code is right",
        "best guess of its chapter is right",
        "records whose code is guessed with more than 0.9",
        "codes that stay as they were",
        "sdCor of both diagnoses, 0.259 before",
        "total variation of the code's distribution",
        "distance of codes and masks (RMSE)",
    )
    wanted = [[row(text, name) for name in ("default", "transport")] for text in rows]
    assert [[x / 100 if x > 1 else x for x in pair] for pair in found] == pytest.approx(np.array(wanted), abs=0.005)
    assert f"{found[0][0]:.0f} % of the records; without masks, in 7 %" in " ".join(text.split())


@pytest.mark.parametrize(
    ("name", "records", "shown"), [("default", 400, (0.53,)), ("transport", 2_000, (0.39, 0.24, 0.99))]
)
def test_what_the_age_of_a_record_adds(name, records, shown):
    """The attacker also knows the law of codes of each age band, and sees the band."""
    one = real(name)
    (a, b), likelihoods = one.likelihoods()
    keys = a.astype(np.int64) << 32 | b
    rows = discharges()
    _, band = np.unique([rows[k]["age"] for k in real_rows(("diag_1", "diag_2"))], return_inverse=True)
    own = np.searchsorted(keys, one.batch.columns[0].codes.astype(np.int64) << 32 | one.batch.columns[1].codes)
    laws = [np.bincount(own[band == k], minlength=keys.size) for k in range(band.max() + 1)]
    place = np.unique(a, return_inverse=True)[1]
    surest = []
    for k in np.random.default_rng(0).choice(one.batch.size, records, replace=False):
        told = np.bincount(place, laws[band[k]] * likelihoods([tuple(int(c.codes[k]) for c in one.drawn.columns)])[0])
        surest.append(told.max() / told.sum())
    surest = np.array(surest)
    figures = (surest.mean(), (surest > 0.5 + 1e-5).mean(), surest.max())[: len(shown)]
    assert figures == pytest.approx(shown, abs=0.03)
    assert f"{shown[0]:.2f}" in SECURITY.partition("age band too")[2][:80]


def test_what_transport_does_not_write():
    one = real("transport")
    a, b = one.likelihoods()[0]
    share = np.unique(real_pairs()[0].astype(np.int64) << 32 | real_pairs()[1], return_counts=True)[1] / one.batch.size
    assert np.array_equal(np.unique(a.astype(np.int64) << 32 | b), a.astype(np.int64) << 32 | b)
    transport = map_in_force(one.made)
    place = tuple(v.indices(codes) for v, codes in zip(transport.map.law.values, (a, b), strict=True))
    written = (transport.map.chances * transport.map.mask_weights)[place].astype(float)  # of masks; a redraw keeps it
    variation = (np.abs(written - share).sum() + 1 - written.sum()) / 2
    never = []
    for j in (0, 1):
        values, counts = np.unique(one.batch.columns[j].codes, return_counts=True)
        channel = one.made.attribute_channel(j, values.astype(np.int32), one.counts)
        reached = (counts @ channel.rows)[channel.class_of[values]] > 1e-9
        never.append(f"{(~reached).sum()} of {values.size}")
    assert "{} principal and {} secondary codes are never written".format(*never) in METHODS
    assert f"{variation:.3f} for the pair" in METHODS


def with_lists(tau, events):
    """The codes of events with a list of secondary diagnoses."""
    events = [event["diagnoses"] for event in events]
    offsets = offsets_from_lengths(np.array([len(one["secondary"]) for one in events]))
    principal, secondary = (
        tau.encode(codes)
        for codes in (
            [one["principal"]["code"] for one in events],
            [each["code"] for one in events for each in one["secondary"]],
        )
    )
    return Batch(len(events), (Column(principal), Column(secondary, offsets)))


def asked(one):
    """The distance (RMSE) that α asks for of secondary codes."""
    return (one.drawn.distortions[1].squared_noise / one.drawn.distortions[1].values) ** 0.5


def test_the_figures_of_real_lists():
    tau = icd9cm().taxonomy()
    one = Masked("transport", tau, with_lists(tau, real_lists(3_000, 8)[1]))
    risk = one.made.risk()
    text = METHODS.partition("discharges with lists of up to eight codes")[2]
    shown = [float(figure) for figure in re.findall(r"0\.\d+", text)[:3]]
    figures = [risk.rmse["secondary"], asked(one), risk.record["secondary"].vulnerability]
    assert shown == pytest.approx(figures, abs=0.01)


@pytest.mark.scheduled
def test_the_figures_of_events_with_lists():
    tau = Ontology.load("icd10cm").taxonomy()
    lines = gzip.decompress((FOLDER / "nested" / "events.jsonl.gz").read_bytes()).splitlines()
    batch = with_lists(tau, map(orjson.loads, lines))
    figures = []
    for name in ("default", "transport"):
        one = Masked(name, tau, batch)
        risk = one.made.risk()
        figures += [risk.record["principal"].vulnerability, risk.rmse["secondary"]]
    text = METHODS.partition("Lists make the difference")[2]
    shown = [float(figure) for figure in re.findall(r"0\.\d+", text)[:5]]
    assert shown == pytest.approx([figures[0], figures[2], asked(one), figures[1], figures[3]], abs=0.02)
