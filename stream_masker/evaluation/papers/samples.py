"""Data sets like those of the papers, generated from ICD-10-CM and from small made-up taxonomies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stream_masker.core.batch import Batch, Column
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.downstream import CHAPTER_DEPTH, ancestors_at, chapters

SAMPLE_SECRET = b"reproduction of the papers"
"""The secret for masking generated data. It needs no protection, because the data are not real."""

GENERATOR_SEED = 1
FANOUT = (8, 6, 8, 10)
"""The number of children of each concept in the made-up taxonomy of procedures, by depth."""

BANK: Mapping[str, tuple[str, ...]] = {
    "client": ("01", "02", "03", "04", "05", "06", "06"),
    "branch": ("07", "07", "08", "08", "09", "09", "09"),
    "product": ("10", "11", "12", "13", "13", "12", "11"),
    "advisor": ("14", "14", "15", "16", "16", "16", "17"),
}
"""The bank example of 2012 (Table 1), whose values have no ontology. They are given by their numbers."""

DIAGNOSES = (
    *(("neoplasm", "disease"), ("mental disorder", "disease"), ("nervous disease", "disease")),
    *(("lung cancer", "neoplasm"), ("paranoia", "mental disorder"), ("schizophrenia", "mental disorder")),
    *(("dementia", "mental disorder"), ("vascular dementia", "dementia"), ("degenerative", "nervous disease")),
    *(("alzheimer", "dementia"), ("alzheimer", "degenerative"), ("meningitis", "nervous disease")),
    ("sclerosis", "nervous disease"),
)
"""The taxonomy of 2013's Figure 1. Each value has as many ancestors as the printed distances imply."""

PATIENTS = (
    *("lung cancer", "paranoia", "schizophrenia", "vascular dementia", "alzheimer", "alzheimer", "meningitis"),
    *("meningitis", "sclerosis"),
)
"""The sample of 2013's Example 1."""


def diseases() -> Taxonomy:
    """Return ICD-10-CM, which ships with the package. The papers use the diseases of SNOMED CT."""
    return Ontology.load("icd10cm").taxonomy()


def procedures() -> Taxonomy:
    """Return a made-up taxonomy of 5 levels. The papers use the procedures of SNOMED CT."""
    links: list[tuple[str, str]] = []
    level = ["P"]
    for fanout in FANOUT:
        children = [(f"{parent}{chr(ord('a') + i)}", parent) for parent in level for i in range(fanout)]
        links, level = [*links, *children], [child for child, _ in children]
    return Ontology.from_edges(links).taxonomy()


def paired(
    taxonomies: Mapping[str, Taxonomy],
    values: Sequence[int],
    records: int,
    *,
    clusters: tuple[int, int],
    noise: float = 0.0,
    skew: float = 0.0,
    shuffled: bool = False,
    apart: bool = False,
) -> DataSet:
    """Return records whose attributes depend on a hidden class.

    * ``values``: for each attribute the number of leaves that its values are drawn from.
    * ``clusters``: the number of classes and a depth. Each class has the leaves below one concept of this depth, in as
      few chapters as possible.
    * ``noise``: the share of values that do not depend on the class.
    * ``skew``: the exponent of the frequencies of classes and values, 0 for equal frequencies.
    * ``shuffled``: each class has a random concept of each attribute, which other classes can have, too. Otherwise,
      each class has a concept of its own, and neighbouring classes have neighbouring concepts.
    * ``apart``: each attribute has its concepts in a chapter of its own. Otherwise, attributes of one taxonomy share
      them.
    """
    rng = np.random.default_rng(GENERATOR_SEED)
    classes, depth = clusters
    hidden = rng.choice(classes, records, p=_shares(classes, skew))
    columns = []
    for j, (tau, count) in enumerate(zip(taxonomies.values(), values, strict=True)):
        used = _clustered_leaves(tau, count, classes, depth, skipped=j if apart else 0)
        concepts = rng.integers(0, classes, classes)[hidden] if shuffled else hidden
        columns.append(_column(used, classes, concepts, rng, noise=noise, skew=skew))
    return DataSet((Batch(records, tuple(columns)),), taxonomies, SAMPLE_SECRET)


def _column(
    used: Int64Array, classes: int, hidden: Int64Array, rng: np.random.Generator, *, noise: float, skew: float
) -> Column:
    """Return one value for each class in ``hidden``, or, with probability ``noise``, a value of any class.

    ``used[i]`` belongs to class i modulo ``classes``.
    """
    class_of = np.arange(used.size) % classes
    order = np.argsort(class_of, kind="stable")
    starts, sizes = np.searchsorted(class_of[order], np.arange(classes)), np.bincount(class_of, minlength=classes)
    within = (rng.random(hidden.size) ** (1.0 + skew) * sizes[hidden]).astype(np.int64)
    dependent = used[order[starts[hidden] + within]]
    free = used[rng.choice(used.size, hidden.size, p=_shares(used.size, skew))]
    return Column(np.where(rng.random(hidden.size) < noise, free, dependent).astype(np.int32))


def _clustered_leaves(tau: Taxonomy, values: int, clusters: int, depth: int, *, skipped: int) -> Int64Array:
    """Return (values,) int64: leaves below concepts of one depth.

    Successive leaves alternate between these concepts. The concepts have different parents, if there are enough. They
    are in the chapters with the most of them, without the first ``skipped`` chapters.
    """
    leaves = np.flatnonzero(tau.leaf & (tau.depth > depth))
    roots, counts = np.unique(ancestors_at(tau, depth)[leaves], return_counts=True)
    large = roots[counts >= -(-values // clusters)]
    if depth > CHAPTER_DEPTH + 1:
        unrelated = large[np.unique(ancestors_at(tau, depth - 1)[large], return_index=True)[1]]
        large = unrelated if unrelated.size >= clusters else large
    chapter = chapters(large, tau)
    by_size = np.argsort(-np.bincount(chapter), kind="stable")
    rank = np.empty(by_size.size, np.int64)
    rank[by_size] = np.arange(by_size.size)
    eligible = large[rank[chapter] >= skipped]
    roots_used = eligible[np.argsort(rank[chapters(eligible, tau)], kind="stable")][:clusters]
    inside = leaves[np.isin(ancestors_at(tau, depth)[leaves], roots_used)]
    return _in_turn(inside, ancestors_at(tau, depth)[inside])[:values]


def _in_turn(values: Int64Array, groups: Int64Array) -> Int64Array:
    """Return the values in an order that alternates between the groups."""
    rank = np.zeros(values.size, np.int64)
    for group in np.unique(groups):
        rank[groups == group] = np.arange(np.count_nonzero(groups == group))
    return np.asarray(values[np.lexsort((groups, rank))])


def _shares(count: int, skew: float) -> Float64Array:
    weights = np.arange(1.0, count + 1.0) ** -skew
    return np.asarray(weights / weights.sum())


def dataset_1_of_2017(*, classes: int = 2, apart: bool = False) -> DataSet:
    """Return two strongly correlated diagnoses: 1,350 records with 17 and 19 distinct values.

    ``apart``: the diagnoses of a record are in different chapters. Otherwise, they are near each other.
    """
    tau = diseases()
    return paired({"a": tau, "b": tau}, (17, 19), 1_350, clusters=(classes, 4), noise=0.02, skew=0.3, apart=apart)


def datasets_of(paper: str) -> dict[str, DataSet]:
    """Return the data sets of 2017 or 2019, by their names in the paper.

    * 2017: two diagnoses; a diagnosis and a strongly correlated procedure: 1,316 records.
    * 2019: a diagnosis and a moderately correlated procedure, 1,172 records with about 783 and 430 values; a diagnosis
      and a correlated procedure, 1,012 records with about 55 and 94 values; the same with a second diagnosis.
    """
    mixed = {"a": diseases(), "b": procedures()}
    if paper == "2017":
        second = paired(mixed, (24, 20), 1_316, clusters=(2, 4), noise=0.05, skew=0.3)
        return {"Dataset1": dataset_1_of_2017(), "Dataset2": second}
    three = {**mixed, "c": mixed["a"]}
    return {
        "Dataset1": paired(mixed, (2_950, 860), 1_172, clusters=(255, 4), skew=0.4, shuffled=True),
        "Dataset2": paired(mixed, (75, 160), 1_012, clusters=(48, 3), skew=0.4, shuffled=True),
        "Dataset3": paired(three, (75, 160, 190), 1_012, clusters=(48, 3), skew=0.4, shuffled=True),
    }


def discharges_of_2013(root: str, categories: int, records: int, *, numeric: bool) -> DataSet:
    """Return discharges of one chapter of ICD-10-CM: a principal diagnosis and, with ``numeric``, three numbers.

    The numbers are age, length of stay and charge. ``categories``: the number of distinct diagnoses.
    """
    rng = np.random.default_rng(GENERATOR_SEED)
    tau = Ontology.load("icd10cm").taxonomy(root=root)
    used = rng.permutation(np.flatnonzero(tau.leaf))[:categories]
    codes = used[rng.choice(used.size, records, p=_shares(used.size, 1.2))].astype(np.int32)
    block = ancestors_at(tau, 2)[codes] % 7
    stay = 1.0 + np.floor(rng.exponential(3.0 + block))
    age = np.clip(np.round(rng.normal(55.0 + 3.0 * block, 15.0)), 0.0, 100.0)
    charge = np.round(5_000.0 + 4_000.0 * stay * rng.lognormal(0.0, 0.5, records))
    numbers = np.stack([age, stay, charge], axis=1) if numeric else None
    kinds = {"age": Numeric(minimum=0, maximum=100, integer=True), "stay": Numeric(minimum=1), "charge": Numeric()}
    return DataSet(
        (Batch(records, (Column(codes),), numeric=numbers),),
        {"diagnosis": tau},
        SAMPLE_SECRET,
        kinds if numeric else {},
    )


def flat_dataset(columns: Mapping[str, Sequence[str]]) -> DataSet:
    """Return a data set of values without an ontology: each is directly below a root."""
    taxonomies = {
        name: Ontology.from_edges([(value, f"any {name}") for value in sorted(set(values))]).taxonomy()
        for name, values in columns.items()
    }
    encoded = tuple(Column(taxonomies[name].encode(list(values))) for name, values in columns.items())
    return DataSet((Batch(encoded[0].codes.size, encoded),), taxonomies, SAMPLE_SECRET)


def mushrooms(records: int) -> DataSet:
    """Return nominal records of 8 attributes that depend on a hidden class, as in the mushroom data set."""
    rng = np.random.default_rng(GENERATOR_SEED)
    hidden = rng.integers(0, 6, records)
    columns = {}
    for number in range(8):
        size = 3 + number
        value = (hidden * (number + 1) + rng.choice(3, records, p=(0.7, 0.2, 0.1))) % size
        columns[f"attribute{number + 1}"] = [f"v{code}" for code in value.tolist()]
    return flat_dataset(columns)
