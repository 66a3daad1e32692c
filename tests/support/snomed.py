"""Generated SNOMED CT releases (RF2 snapshots) of any size, with the shape of SNOMED CT.

Concepts have 1.6 parents on average, depths (nodes on the longest path) up to 15, and a heavy-tailed fan-out. Second
parents are near the first one, so that a concept has few ancestors for its depth. A tenth of the concepts is inactive.
Files also have inactive relationships and descriptions, relationships other than is-a, and synonyms.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

ROOT, IS_A, FINDING_SITE = 138875005, 116680003, 363698007
FULLY_SPECIFIED_NAME, SYNONYM = 900000000000003001, 900000000000013009
DATE, OTHER = "20240101", "900000000000207008"
"""The date of all rows, and what stands in the columns that nobody reads."""

LEVELS, TOP_LEVEL = 15, 19
MORE_PARENTS = 0.65
"""The average number of parents besides the first, before repeated parents are removed."""
CHILDLESS = 0.65

CONCEPT = "id effectiveTime active moduleId definitionStatusId"
DESCRIPTION = "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId"
RELATIONSHIP = (
    "id effectiveTime active moduleId sourceId destinationId relationshipGroup typeId characteristicTypeId modifierId"
)
WORDS = ("Acute", "Chronic", "Congenital", "Ménière's"), ("inflammation", "injury", "neoplasm", "haemorrhage")


def write_release(folder: Path, *, concepts: int, seed: int) -> Path:
    """Write a release with the given number of active concepts, including the root; return its folder."""
    rng = np.random.default_rng(seed)
    children, parents = hierarchy(concepts, rng)
    ids = np.concatenate(([ROOT], 150_000_000 + 7 * rng.permutation(concepts + concepts // 10 - 1)))
    rows = [(concept, DATE, int(k < concepts), OTHER, OTHER) for k, concept in enumerate(ids.tolist())]
    _write(folder, "Concept_Snapshot", CONCEPT, rows)

    gone, some = rng.integers(0, ids.size, (2, concepts // 5)), rng.integers(0, concepts, (2, concepts))
    linked = [(np.array([children, parents]), IS_A, 1), (gone, IS_A, 0), (some, FINDING_SITE, 1)]
    rows = [
        (n, DATE, active, OTHER, source, target, 0, kind, OTHER, OTHER)
        for links, kind, active in linked
        for n, (source, target) in enumerate(ids[links].T.tolist())
    ]
    _write(folder, "Relationship_Snapshot", RELATIONSHIP, rows)

    words = zip(*(np.array(some)[rng.integers(0, len(some), ids.size)].tolist() for some in WORDS), strict=True)
    rows = []
    for concept, (kind, what) in zip(ids.tolist(), words, strict=True):
        name = f"{kind} {what} {concept}"
        rows.append((concept, DATE, 1, OTHER, concept, "en", FULLY_SPECIFIED_NAME, f"{name} (disorder)", OTHER))
        rows.append((-concept, DATE, concept % 3 % 2, OTHER, concept, "en", SYNONYM, name, OTHER))
    _write(folder, "Description_Snapshot-en", DESCRIPTION, rows)
    return folder


def _write(folder: Path, name: str, header: str, rows: list[tuple[object, ...]]) -> None:
    path = folder / "Snapshot" / "Terminology" / f"sct2_{name}_INT_{DATE}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines("\t".join(map(str, row)) + "\r\n" for row in (header.split(), *rows))


def hierarchy(concepts: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return (l,) the child and (l,) the parent of each link of a rooted DAG, whose root is 0.

    First parents are one level up, and few of them have most children; other parents are near them.
    """
    sizes = level_sizes(concepts)
    depth = np.repeat(np.arange(1, sizes.size + 1), sizes)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    spread = [starts[k] + _spread(sizes[k], sizes[k + 1], rng) for k in range(sizes.size - 1)]
    first = np.concatenate([np.full(1, -1), *spread])
    more = np.repeat(np.arange(concepts), rng.geometric(1 / (1 + MORE_PARENTS), concepts) - 1)
    more = more[depth[more] > 2]
    near = _near(first, more, depth, starts, rng)
    pairs = np.concatenate((np.arange(1, concepts) * concepts + first[1:], more * concepts + near))
    return np.divmod(np.unique(pairs), concepts)


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
