"""The figures before and after masking in the page *Getting started*, of the files in ``examples/nested``."""

from __future__ import annotations

import gzip

import numpy as np
import orjson
import yaml
from support.documentation import DOCS, blocks
from support.examples import FOLDER

from stream_masker import Ontology
from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import count_batch

NAMES = ("principal", "secondary")
PAGE = (DOCS / "getting-started.md").read_text()


def batch(name, tau):
    """The codes of a file of the example: the principal ones, and the secondary ones as an array."""
    lines = gzip.decompress((FOLDER / "nested" / name).read_bytes()).splitlines()
    diagnoses = [orjson.loads(line)["diagnoses"] for line in lines]
    lengths = np.array([len(each["secondary"]) for each in diagnoses])
    principal = tau.encode([each["principal"]["code"] for each in diagnoses])
    secondary = tau.encode([one["code"] for each in diagnoses for one in each["secondary"]])
    return Batch(lengths.size, (Column(principal), Column(secondary, offsets_from_lengths(lengths))))


def test_the_table_has_the_figures_of_the_example():
    tau = Ontology.load("icd10cm").taxonomy()
    before, after = (batch(name, tau) for name in ("events.jsonl.gz", "expected.jsonl.gz"))
    counts = (count_batch(one, [len(tau)] * 2) for one in (before, after))
    found = [compute_statistics(one, NAMES, [WuPalmer(tau)] * 2, version=1) for one in counts]
    assert f"the {before.size:,} events in" in PAGE
    for name in NAMES:
        means = " | ".join(tau.label(one.mean[name]) for one in found)
        variances = " | ".join(f"{one.variance[name]:.2f}" for one in found)
        assert f"| mean of the {name} diagnoses (sMean) | {means} |" in PAGE
        assert f"| variance of the {name} diagnoses (sVar) | {variances} |" in PAGE
    correlations = " | ".join(f"{one.correlation[0, 1]:.2f}" for one in found)
    assert f"| correlation of both (sdCor) | {correlations} |" in PAGE
    pairs = zip(before.columns, after.columns, strict=True)
    same = np.concatenate([one.codes == other.codes for one, other in pairs]).mean()
    assert "About a quarter of the codes stay as they were." in PAGE
    assert abs(same - 0.25) < 0.05


def test_the_example_is_masked_with_the_configuration_of_the_page():
    (block,) = blocks("yaml", "1. Write a configuration", "docs/getting-started.md")
    shown, own = yaml.safe_load(block.text), yaml.safe_load((FOLDER / "nested" / "stream-masker.yaml").read_text())
    assert {key: own[key] for key in ("attributes", "fields", "noise_key")} == {
        key: shown[key] for key in ("attributes", "fields", "noise_key")
    }
