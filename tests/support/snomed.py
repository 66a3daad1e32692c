"""Generated SNOMED CT releases (RF2 snapshots) of any size, with the shape of SNOMED CT.

Concepts have 1.6 parents on average, depths (nodes on the longest path) up to 20, and a heavy-tailed fan-out. Second
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

MORE_PARENTS = 0.65
"""The average number of parents besides the first, before repeated parents are removed."""

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

    First parents are among the concepts before, mostly among the first of them; other parents are near them.
    """
    every = np.arange(1, concepts)
    first = np.floor(every * rng.random(every.size) ** 3).astype(np.int64)
    more = np.repeat(every, rng.geometric(1 / (1 + MORE_PARENTS), every.size) - 1)
    near = np.clip(first[more - 1] + rng.geometric(0.1, more.size) * rng.choice([-1, 1], more.size), 1, more - 1)
    pairs = np.concatenate((every * concepts + first, (more * concepts + near)[(near > 0) & (first[more - 1] > 0)]))
    return np.divmod(np.unique(pairs), concepts)
