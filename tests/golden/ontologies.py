"""The files that the configurations name: ontologies, a mapping, Markov matrices and the secret."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

from support.data import data_file

DAG = 4_000
HUBS = 12
"""The number of concepts of the generated graph, including the root, and of those directly below the root."""

ICD9_FILE = data_file("icd9cm-diagnoses.csv.gz")

SECRET = b"the secret of the golden cases"

Links = list[tuple[str, str]]


def tree_codes() -> list[str]:
    """The codes of the tree except the root, in the form of a classification: ``A01``, ``A01.1``."""
    return [child for child, _ in tree_links()]


def tree_links() -> Links:
    """Chapters A, B, C … of unequal sizes; below them categories, and codes with a dot below these."""
    links: Links = []
    for chapter, size in zip("ABCDE", (3, 5, 2, 6, 4), strict=True):
        links.append((f"chapter {chapter}", "all"))
        for category in range(size):
            code = f"{chapter}{category:02d}"
            links.append((code, f"chapter {chapter}"))
            links += [(f"{code}.{k}", code) for k in range((category * 3 + size) % 6)]
    return links


def dag_codes() -> list[str]:
    """The concepts of the graph except the root, by depth."""
    return [_concept(number) for number in range(1, DAG)]


def dag_links() -> Links:
    """A hierarchy of many levels; two in five concepts have a second parent near the first, a few have a third."""
    draw = Random(7).random
    links = [(_concept(number), _concept(0)) for number in range(1, HUBS + 1)]
    for number in range(HUBS + 1, DAG):
        first = 1 + int((number - 1) * (0.35 + 0.3 * draw() ** 2) * draw() ** 0.2)
        parents = {first}
        for chance in (0.4, 0.15):
            if draw() < chance:
                parents.add(max(1, min(number - 1, first + int(draw() * 9) - 4)))
        links += [(_concept(number), _concept(parent)) for parent in sorted(parents)]
    return links


def _concept(number: int) -> str:
    return f"c{number:04d}"


def write_files(folder: Path) -> Path:
    """Writes all files to a folder; returns the folder."""
    _write_ontology(folder / "tree.csv", tree_links(), "all")
    _write_ontology(folder / "dag.csv", dag_links(), _concept(0))
    (folder / "secret").write_bytes(SECRET)
    (folder / "secret").chmod(0o600)
    (folder / "mapping.csv").write_text("value,concept\nlocal-1,A00\nlocal-2,D01.0\nhyper tension,B01\n")
    matrix = {
        "A00": {"A00": 0.6, "A01": 0.2, "B00": 0.1, "D01": 0.1},
        "A01": {"A00": 0.1, "A01": 0.7, "B00": 0.1, "D01": 0.05, "D02": 0.05},
        "B00": {"A00": 0.25, "A01": 0.25, "B00": 0.25, "D01": 0.25},
        "D01": {"A01": 0.1, "B00": 0.1, "D01": 0.7, "D02": 0.1},
        "D02": {"A00": 0.2, "B00": 0.2, "D01": 0.1, "D02": 0.5},
    }
    (folder / "a.json").write_text(json.dumps(matrix))
    (folder / "b.json").write_text(
        '{"A00": {"A00": 0.5, "B00": 0.5}, "B00": {"A00": 0.25, "B00": 0.75}, "C00": {"C00": 0.9, "A00": 0.1}}'
    )
    shutil.copy(ICD9_FILE, folder)
    return folder


def _write_ontology(path: Path, links: Links, root: str) -> None:
    labels = {child: f"Disease {child}, {'acute' if k % 3 else 'état'}" for k, (child, _) in enumerate(links)}
    rows = [f'{child},{parent},"{labels[child]}"\n' for child, parent in links]
    path.write_text("".join(["concept,parent,label\n", f"{root},,Everything\n", *rows]), encoding="utf-8")
