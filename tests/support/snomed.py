"""Generated SNOMED CT releases (RF2 snapshots) of any size, with the shape of SNOMED CT.

``python tests/support/snomed.py FOLDER --concepts 350000 --seed 1`` writes one.

* Concepts have 1.6 parents on average, depths (nodes on the longest path) up to 15, and a heavy-tailed fan-out. Second
  parents are near the first one, so that a concept has few ancestors for its depth.
* A tenth of the concepts is inactive, together with their relationships. Active concepts also have inactive
  descriptions and relationships, and relationships other than is-a.
* Descriptions are in English and Spanish. Identifiers are valid: their last digit is a check digit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

ROOT = 138875005
IS_A = 116680003
FINDING_SITE = 363698007
FULLY_SPECIFIED_NAME = 900000000000003001
SYNONYM = 900000000000013009
MODULE = 900000000000207008
PRIMITIVE = 900000000000074008
INFERRED = 900000000000011006
SOME = 900000000000451002
CASE = 900000000000448009
DATES = (20020131, 20090731, 20170731, 20240101)

LEVELS = 15
TOP_LEVEL = 19
MORE_PARENTS = 0.65
"""The average number of parents besides the first, before repeated parents are removed."""
CHILDLESS = 0.65
INACTIVE = 0.1
SPANISH = 0.3

CONCEPT = "id effectiveTime active moduleId definitionStatusId"
DESCRIPTION = "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId"
RELATIONSHIP = (
    "id effectiveTime active moduleId sourceId destinationId relationshipGroup typeId characteristicTypeId modifierId"
)

WORDS = {
    "en": (
        ("Acute", "Chronic", "Congenital", "Recurrent", "Ménière's", "Benign", "Primary", "Secondary"),
        ("inflammation", "injury", "neoplasm", "infection", "degeneration", "obstruction", "haemorrhage"),
        ("of kidney", "of liver", "of left eye", "of lung", "of colon", "of skin", "of femur", "of heart", "of ear"),
        "(disorder)",
    ),
    "es": (
        ("agudo", "crónico", "congénito", "recurrente", "de Ménière", "benigno", "primario", "secundario"),
        ("inflamación", "lesión", "neoplasia", "infección", "degeneración", "obstrucción", "hemorragia"),
        ("del riñón", "del hígado", "del ojo", "del pulmón", "del colon", "de la piel", "del fémur", "del corazón"),
        "(trastorno)",
    ),
}

LEFT, RIGHT = np.indices((10, 10))
MULTIPLY = np.where(LEFT < 5, LEFT + RIGHT, LEFT - RIGHT) % 5 + 5 * ((LEFT < 5) != (RIGHT < 5))
INVERSE = np.array([0, 4, 3, 2, 1, 5, 6, 7, 8, 9])
TURN = np.array([1, 5, 7, 6, 2, 8, 3, 0, 9, 4])
"""Verhoeff's check digit: products and inverses in the dihedral group of order ten, and a permutation."""


@dataclass(frozen=True)
class Hierarchy:
    """depth: (m,) of each concept, ascending. children, parents: (l,) the concepts of each is-a link."""

    depth: Ints
    children: Ints
    parents: Ints


def write_release(folder: Path, *, concepts: int, seed: int) -> Path:
    """Write a release with the given number of active concepts, including the root; return its folder."""
    rng = np.random.default_rng(seed)
    links = hierarchy(concepts, rng)
    ids = concept_ids(concepts + int(INACTIVE * concepts), rng)
    files = folder / "Snapshot" / "Terminology"
    files.mkdir(parents=True, exist_ok=True)
    _write(files / "sct2_Concept_Snapshot_INT_20240101.txt", CONCEPT, concept_rows(ids, concepts, rng))
    _write(files / "sct2_Relationship_Snapshot_INT_20240101.txt", RELATIONSHIP, relationship_rows(ids, links, rng))
    for number, language in enumerate(WORDS):
        name = f"sct2_Description_Snapshot-{language}_INT_20240101.txt"
        _write(files / name, DESCRIPTION, description_rows(ids, language, number * 10**7, rng))
    return folder


def _write(path: Path, header: str, rows: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(header.replace(" ", "\t") + "\r\n")
        file.writelines(rows)


def hierarchy(concepts: int, rng: np.random.Generator) -> Hierarchy:
    """A rooted DAG. First parents are one level up, and few of them have most children; other parents are near them."""
    sizes = level_sizes(concepts)
    depth = np.repeat(np.arange(1, sizes.size + 1), sizes)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    spread = [starts[k] + _spread(sizes[k], sizes[k + 1], rng) for k in range(sizes.size - 1)]
    first = np.concatenate([np.full(1, -1), *spread])
    more = np.repeat(np.arange(concepts), rng.geometric(1 / (1 + MORE_PARENTS), concepts) - 1)
    more = more[depth[more] > 2]
    near = _near(first, more, depth, starts, rng)
    pairs = np.concatenate((np.arange(1, concepts) * concepts + first[1:], more * concepts + near))
    unique = np.unique(pairs)
    return Hierarchy(depth, unique // concepts, unique % concepts)


def level_sizes(concepts: int) -> Ints:
    """The number of concepts of depth 1, 2, …: one, up to 19, and then a bell curve."""
    levels = min(LEVELS, concepts)
    hump = np.exp(-(((np.arange(1, levels + 1) - 7.5) / 2.2) ** 2) / 2)
    hump[:2] = 0
    left = concepts - levels
    top = min(TOP_LEVEL - 1, left) if levels > 1 else 0
    sizes = np.ones(levels, np.int64)
    sizes[1:2] += top
    if levels > 2:
        sizes += np.floor(hump / hump.sum() * (left - top)).astype(np.int64)
    sizes[np.argmax(hump) if levels > 2 else -1] += concepts - sizes.sum()
    return sizes


def _spread(parents: int, children: int, rng: np.random.Generator) -> Ints:
    """(children,) the parents of one level, ascending: most have no child, and a few have very many."""
    weights = rng.pareto(1.5, parents) * (rng.random(parents) > CHILDLESS)
    weights[rng.integers(parents)] += 1e-9
    return np.repeat(np.arange(parents), rng.multinomial(children, weights / weights.sum()))


def _near(first: Ints, children: Ints, depth: Ints, starts: Ints, rng: np.random.Generator) -> Ints:
    """(n,) another parent of each child: near the first parent, or near one of its ancestors except the root."""
    near = first[children]
    for _ in range(2):
        higher = (rng.random(near.size) < 0.35) & (depth[near] > 2)
        near = np.where(higher, first[near], near)
    level = depth[near]
    beside = near + rng.geometric(0.1, near.size) * rng.choice([-1, 1], near.size)
    return np.clip(beside, starts[level - 1], starts[level] - 1)


def concept_ids(count: int, rng: np.random.Generator) -> Ints:
    """Identifiers of nine to eleven digits in random order, after that of the root."""
    items = 150_000 + 7 * rng.permutation(count - 1)
    return np.concatenate(([ROOT], identifiers(items, 0)))


def identifiers(items: Ints, partition: int) -> Ints:
    """(n,) identifiers: item, two digits for the partition (0 concept, 1 description, 2 relationship), check digit."""
    digits = items * 100 + partition
    check = np.zeros(items.size, np.int64)
    turned, remaining = TURN, digits.copy()
    while remaining.any():
        check = np.where(remaining > 0, MULTIPLY[check, turned[remaining % 10]], check)
        turned, remaining = TURN[turned], remaining // 10
    return digits * 10 + INVERSE[check]


def _dates(count: int, rng: np.random.Generator) -> list[int]:
    return rng.choice(DATES, count).tolist()


def concept_rows(ids: Ints, active: int, rng: np.random.Generator) -> Iterable[str]:
    """Rows in random order; the first ``active`` ids are active concepts, the others are inactive."""
    order = rng.permutation(ids.size)
    for k, concept, date in zip(order.tolist(), ids[order].tolist(), _dates(ids.size, rng), strict=True):
        yield f"{concept}\t{date}\t{int(k < active)}\t{MODULE}\t{PRIMITIVE}\r\n"


def relationship_rows(ids: Ints, links: Hierarchy, rng: np.random.Generator) -> Iterable[str]:
    """Active is-a links, inactive links of active and inactive concepts, and active relationships of another type."""
    active, retired = links.depth.size, links.children.size // 5
    gone = np.arange(active, ids.size)
    found = rng.integers(0, active, active)
    sources = [links.children, rng.integers(0, active, retired), gone, found]
    targets = [links.parents, *(rng.integers(0, active, part.size) for part in sources[1:])]
    kinds = np.repeat([IS_A, IS_A, IS_A, FINDING_SITE], [part.size for part in sources])
    states = np.repeat([1, 0, 0, 1], [part.size for part in sources])
    order = rng.permutation(kinds.size)
    columns = [ids[np.concatenate(sources)], ids[np.concatenate(targets)], kinds, states]
    own = identifiers(150_000 + np.arange(kinds.size), 2)
    rows = zip(own.tolist(), _dates(own.size, rng), *(column[order].tolist() for column in columns), strict=True)
    for row, date, source, target, kind, state in rows:
        yield f"{row}\t{date}\t{state}\t{MODULE}\t{source}\t{target}\t0\t{kind}\t{INFERRED}\t{SOME}\r\n"


def description_rows(ids: Ints, language: str, base: int, rng: np.random.Generator) -> Iterable[str]:
    """A fully specified name and synonyms for each concept, in Spanish only for some; a tenth is inactive."""
    named = ids if language == "en" else ids[rng.random(ids.size) < SPANISH]
    counts = 2 + rng.poisson(0.8, named.size)
    owners = np.repeat(np.arange(named.size), counts)
    first = np.diff(owners, prepend=-1) > 0
    parts = [np.array(words, object)[rng.integers(0, len(words), owners.size)] for words in WORDS[language][:3]]
    states = first | (rng.random(owners.size) > INACTIVE)
    own = identifiers(150_000 + base + rng.permutation(owners.size), 1)
    columns = (column.tolist() for column in (own, states.astype(int), named[owners], first, *parts))
    for date, row, state, concept, full, *words in zip(_dates(own.size, rng), *columns, strict=True):
        kind, tag = (FULLY_SPECIFIED_NAME, f" {WORDS[language][3]}") if full else (SYNONYM, "")
        term = f"{' '.join(words)} {concept}{tag}"
        yield f"{row}\t{date}\t{state}\t{MODULE}\t{concept}\t{language}\t{kind}\t{term}\t{CASE}\r\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a generated SNOMED CT release (RF2 snapshot).")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--concepts", type=int, default=350_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(write_release(given.folder, concepts=given.concepts, seed=given.seed))
