"""Masked tables of this project beside those of other programs: what they keep, and what an attacker guesses.

``python tests/benchmarks/bench_privacy.py`` masks the 101,388 real discharges with two diagnoses by each
program, each in an environment of its own from pinned versions, and prints the table. Takes some minutes.

The attacker knows the method, its parameters and the original table as a whole, but not the secret. So he masks the
original table himself, counts which code became which mask, and guesses each mask's most frequent original. A method
whose masks are fixed by the table (k-anonymity) is attacked with its own table.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Peer, table
from support.data import icd9cm
from support.real_codes import as_batch, in_force, real_pairs, statistics_of

from stream_masker import SemanticNoise, SemanticTransport
from stream_masker.core.distance import WuPalmer
from stream_masker.core.random import PositionKeys

HEAD = ("", "RMSE", "ΔsdCor", "TV", "right: code", "right: chapter", "ε")
CHAPTERS = 2
"""Their depth in the taxonomy."""

TABLES = 4
"""How often a program masks the records: the last table is attacked, and the attacker learns from the others."""

NOISE = {"alpha": 1.0, "reference": "pair", "rounding": "calibrated", "candidates": "observed"}
OURS = {"semantic noise, the default": (SemanticNoise, NOISE), "semantic transport": (SemanticTransport, {})}


@dataclass(frozen=True)
class Method:
    """Another program with its parameters. ``matched``: ε is chosen so that the attacker is right as with transport."""

    peer: Peer
    label: str
    parameters: dict[str, Any] = field(default_factory=dict)
    matched: bool = False
    synthetic: bool = False


GROUPS = {"k": 5, "left_out": 5, "root": "ICD9CM"}
METHODS = (
    Method(Peer("privacy", ("opendp==0.16.0",)), "randomised response", {"tables": TABLES}, matched=True),
    Method(Peer("privacy", ("anjana==1.2.3",)), "5-anonymity, at most 5 % of the records left out", GROUPS),
    Method(
        Peer("privacy", ("dpmm==0.1.9",)),
        "MST, a synthetic table",
        {"epsilon": 1.0, "delta": 1e-9},
        synthetic=True,
    ),
)


def to_level(tau, depth):
    """Return (m,) the first ancestor of each concept at a depth; a concept above it is its own."""
    owner, above = tau.ancestors_at(np.arange(len(tau)), depth)
    return above[np.unique(owner, return_index=True)[1]]


def main() -> None:
    table("Privacy", HEAD, rows())


def rows() -> Iterator[tuple[str, ...]]:
    original = real_pairs()
    for label, (kind, parameters) in OURS.items():
        taxonomies = dict.fromkeys(("principal", "secondary"), icd9cm().taxonomy())
        made = in_force(kind(taxonomies, seed=b"a seed of sixteen bytes", **parameters), as_batch(original))
        tables = [drawn(made, original, number) for number in range(TABLES)]
        right = attacked(original, tables)
        yield f"stream-masker: {label}", *kept(original, tables[-1]), *map(shown, right), "none"
    for method in METHODS:
        epsilon = matching(original[0], right[0]) if method.matched else None
        tables = run(method, original, epsilon)
        guessed = ("no record",) * 2 if method.synthetic else tuple(map(shown, attacked(original, tables)))
        known = f"{2 * epsilon:.1f}" if epsilon else f"{method.parameters.get('epsilon', 'none')}"
        figures = kept(original, tables[-1], pairwise=not method.synthetic)
        yield f"{method.peer.title}: {method.label}", *figures, *guessed, known


def drawn(made: Any, original: np.ndarray, number: int) -> np.ndarray:
    """(2, n): the masks under the secret of a number."""
    keys = PositionKeys(b"secret %d of sixteen bytes" % number, "t", 0, np.arange(original.shape[1]))
    return np.array([column.codes for column in made.mask_batch(as_batch(original), keys).columns])


def run(method: Method, original: np.ndarray, epsilon: float | None) -> list[np.ndarray]:
    """Mask by another program. Returns its tables as (2, n) positions."""
    tau = icd9cm().taxonomy()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = [tau.decode(codes.tolist()) for codes in original]
        (folder / "records.csv").write_text("".join(f"{a},{b}\n" for a, b in zip(*texts, strict=True)))
        above = [to_level(tau, depth) for depth in (4, 3, 2, 1)]
        values = np.unique(original).tolist()
        ancestors = {tau.ids[code]: [tau.ids[level[code]] for level in above] for code in values}
        (folder / "ancestors.json").write_text(json.dumps(ancestors))
        parameters = method.parameters | ({} if epsilon is None else {"epsilon": epsilon})
        command = [*method.peer.command, json.dumps(parameters)]
        subprocess.run(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True)
        rows = [[line.split(",") for line in file.read_text().split()] for file in sorted(folder.glob("masked-*.csv"))]
        return [np.array([tau.encode(column) for column in zip(*lines, strict=True)]) for lines in rows]


def matching(codes: np.ndarray, target: float) -> float:
    """Return the ε of one diagnosis for which the attacker is right about its random response as often as asked."""
    counts = np.unique(codes, return_counts=True)[1]
    others = 1.0 - np.eye(counts.size)
    low, high = 0.01, 100.0
    for _ in range(40):
        middle = (low + high) / 2
        channel = np.exp(-middle * others)
        right = (counts[:, None] * channel / channel.sum(axis=1, keepdims=True)).max(axis=0).sum() / codes.size
        low, high = (middle, high) if right < target else (low, middle)
    return middle


def kept(original: np.ndarray, masked: np.ndarray, *, pairwise: bool = True) -> tuple[str, ...]:
    """RMSE of the principal diagnosis, ΔsdCor, and the total variation of the principal code."""
    moved = WuPalmer(icd9cm().taxonomy()).pairs(original[0], masked[0]) if pairwise else np.full(1, np.nan)
    before, after = (statistics_of(as_batch(codes)).correlation[0, 1] for codes in (original, masked))
    size = len(icd9cm().taxonomy())
    laws = [np.bincount(codes[0], minlength=size) / codes.shape[1] for codes in (original, masked)]
    rmse = shown(np.sqrt((moved**2).mean())) if pairwise else "–"
    return rmse, f"{after - before:+.3f}", shown(np.abs(laws[0] - laws[1]).sum() / 2)


def attacked(original: np.ndarray, tables: Sequence[np.ndarray]) -> list[float]:
    """How often the attacker is right about the principal code, and about its chapter."""
    chapters = to_level(icd9cm().taxonomy(), CHAPTERS)
    return [guessed(truth, tables) for truth in (original[0], chapters[original[0]])]


def guessed(truth: np.ndarray, tables: Sequence[np.ndarray]) -> float:
    values, which = np.unique(truth, return_inverse=True)
    trials = [one[0] for one in tables[:-1] or tables]
    masks, seen = np.unique(np.concatenate([*trials, tables[-1][0]]), return_inverse=True)
    learned, asked = seen[: -truth.size], seen[-truth.size :]
    cells, counts = np.unique(learned * values.size + np.tile(which, len(trials)), return_counts=True)
    guess = np.full(masks.size, np.bincount(which).argmax())
    order = np.argsort(counts, kind="stable")
    guess[cells[order] // values.size] = cells[order] % values.size
    return float((guess[asked] == which).mean())


def shown(value: float) -> str:
    return f"{value:.3f}"


if __name__ == "__main__":
    main()
