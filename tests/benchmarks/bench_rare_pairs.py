"""What `least` protects of rare pairs, and what it costs, on the real discharges.

``python tests/benchmarks/bench_rare_pairs.py [--alpha 1]``. Needs the data files of ``tests/support/data.py``. The
window is the discharges of one half of the patients; the attacker has those of the other half, and reads the masked
records of the window. The attributes are the principal and the first secondary diagnosis, the noise key is the patient.

* ``least``: the number of rows, or of different patients, that a masked pair must have in the window.
* V, Δ sdCor, RMSE: of the principal diagnosis from its own mask, of the masked records, and of both attributes.
* ``named``: of the principal diagnoses that one patient has alone, the share whose secondary diagnosis the attacker
  names. ``proven``: of the pairs that one patient has alone, the share that is written, so that it is known to be in
  the window. ``support.rare_pairs`` describes both.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from measuring import table
from strong_sample import as_batch
from support.data import discharges, icd9cm
from support.rare_pairs import RarePairs, attack_rare_pairs

from stream_masker.core.mechanisms import SemanticTransport
from stream_masker.core.ontology import UNKNOWN, ConceptMap
from stream_masker.core.random.distinct import KeyHasher
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.core.statistics.units import key_slots

NAMES = ("principal", "secondary")
SEED = b"a seed of sixteen bytes"
HEAD = ("least", "counts", "V", "Δ sdCor", "RMSE", "named", "proven")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alpha", type=float, default=1.0, help="the target of transport")
    alpha = parser.parse_args().alpha
    codes, patients = pairs_with_patients()
    in_window = np.random.default_rng(1).random(patients.max() + 1)[patients] < 0.5
    window, others, own = codes[:, in_window], codes[:, ~in_window], patients[in_window]
    found = list(rows(window, own, others, alpha))
    attacked = found[0][1]
    title = (
        f"{window.shape[1]:,} discharges of {np.unique(own).size:,} patients, α = {alpha:g}; {attacked.targets:,} "
        f"principal diagnoses and {attacked.pairs:,} pairs of one patient; named from other data "
        f"{attacked.named_before:.3f}"
    )
    table(title, HEAD, [cells for cells, _ in found])


def pairs_with_patients() -> tuple[np.ndarray, np.ndarray]:
    """Return (2, n) int32 codes of the discharges with both diagnoses, and (n,) int64 numbers of their patients."""
    find = ConceptMap(icd9cm().taxonomy(), unknown="ancestor", ontology=icd9cm()).resolve
    found = np.array([[find(row[name])[0] for name in ("diag_1", "diag_2")] for row in discharges()], np.int32)
    known = (found != UNKNOWN).all(axis=1)
    patients = np.unique([row["patient_nbr"] for row in discharges()], return_inverse=True)[1]
    return np.ascontiguousarray(found[known].T), patients[known]


def rows(
    window: np.ndarray, patients: np.ndarray, others: np.ndarray, alpha: float
) -> Iterator[tuple[list[object], RarePairs]]:
    tau, batch = icd9cm().taxonomy(), as_batch(window)
    slots = key_slots(KeyHasher(SEED).hashes([b"%d" % patient for patient in patients.tolist()]))
    for counted, known in (("rows", None), ("patients", slots)):
        counts = count_batch(replace(batch, slots=known), [len(tau)] * 2)
        for least in (1, 2, 3, 5):
            made = SemanticTransport(dict.fromkeys(NAMES, tau), target={"alpha": alpha}, least=least, seed=SEED)
            ready = made.with_statistics(made.compute(counts, version=1), counts)
            masks = ready.mask_batch(batch, PositionKeys(SEED, "rare", 0, np.arange(batch.size)))
            masked = np.array([column.codes for column in masks.columns])
            after = compute_statistics(count_batch(as_batch(masked), [len(tau)] * 2), NAMES, made.distances, version=1)
            shift = float(after.correlation[0, 1] - ready.statistics.correlation[0, 1])
            risk, attacked = ready.risk(), attack_rare_pairs(window, patients, masked, others, len(tau))
            rmse = ", ".join(f"{risk.rmse[name]:.3f}" for name in NAMES)
            figures = [risk.vulnerability[NAMES[0]], shift, rmse, attacked.named, attacked.proven]
            yield [least, counted, *figures], attacked


if __name__ == "__main__":
    main()
