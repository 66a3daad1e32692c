"""Random taxonomies for hypothesis, and the examples of the papers."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from stream_masker.core.arrays import Float64Array
from stream_masker.core.distance import Distance
from stream_masker.core.ontology import Ontology, Taxonomy

Edges = list[tuple[str, str]]


def to_all(d: Distance, position: int) -> Float64Array:
    """Return (m,) float64: the distance of the concept at a position to every concept."""
    return d.between(np.array([position]), np.arange(len(d.taxonomy)))[0]


def names(size: int) -> list[str]:
    """Concept ids that are not in alphabetical order."""
    return [f"c{(k * 7919) % 1000:03d}-{k}" for k in range(size)]


@st.composite
def edges(draw: st.DrawFn, *, most_parents: int, least: int = 2, most: int = 25) -> Edges:
    """(child, parent) links of a rooted DAG: the parents of each concept are among the concepts before it."""
    ids = names(draw(st.integers(least, most)))
    links = []
    for k in range(1, len(ids)):
        above = draw(st.sets(st.integers(0, k - 1), min_size=1, max_size=min(k, most_parents)))
        links += [(ids[k], ids[p]) for p in sorted(above)]
    return links


def trees(**sizes: int) -> st.SearchStrategy[Taxonomy]:
    """Random trees."""
    return edges(most_parents=1, **sizes).map(lambda links: Ontology.from_edges(links).taxonomy())


def dags(**sizes: int) -> st.SearchStrategy[Taxonomy]:
    """Random rooted DAGs with up to three parents per concept."""
    return edges(most_parents=3, **sizes).map(lambda links: Ontology.from_edges(links).taxonomy())


def taxonomies(**sizes: int) -> st.SearchStrategy[Taxonomy]:
    """Trees and DAGs."""
    return trees(**sizes) | dags(**sizes)


FIGURE_1 = [
    ("Disorder of body system", "Disease"),
    ("Disorder of digestive system", "Disorder of body system"),
    ("Disorder of digestive tract", "Disorder of digestive system"),
    ("Inflammation of specific body organs", "Disorder of digestive tract"),
    ("Inflammatory disorder of digestive tract", "Inflammation of specific body organs"),
    ("gastritis", "Inflammatory disorder of digestive tract"),
    ("gingivitis", "Inflammatory disorder of digestive tract"),
    ("hematoma", "Disease"),
]
"""The part of figure 1 of 2017 that its example needs: gastritis and gingivitis have a subsumer of depth 6."""

FIGURE_2013 = [
    ("neoplasm", "disease"),
    ("lung cancer", "neoplasm"),
    ("mental disorder", "disease"),
    ("paranoia", "mental disorder"),
    ("schizophrenia", "mental disorder"),
    ("dementia", "mental disorder"),
    ("vascular dementia", "dementia"),
    ("disease of nervous system", "disease"),
    ("degenerative disease", "disease of nervous system"),
    ("Alzheimer", "dementia"),
    ("Alzheimer", "degenerative disease"),
    ("meningitis", "disease of nervous system"),
    ("multiple sclerosis", "disease of nervous system"),
]
"""Figure 1 of 2013: |T| is 3 for lung cancer, paranoia and meningitis, 4 for vascular dementia, 6 for Alzheimer."""
