"""The core's figures, as ratios to decoding and encoding an event with orjson in the same run.

``python tests/benchmarks/bench_core.py [--records 100000] [--concepts 350000]``. One core; processor times.

* A pair: two attributes of one taxonomy, masked in batches of 10,000, of ICD-10-CM and of a made-up SNOMED release.
* Calibration: statistics, noise and checks of a window of ``--records`` with 1,000 values, first and next.
* Loading of the release; ``bench_ontologies.py`` measures that of ``hp.obo``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import orjson
from measuring import arguments, best, table, timed
from support.snomed import write_release

from stream_masker import Ontology, SemanticNoise
from stream_masker.core.batch import Batch, Column
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.ontology.draft import arrays_of
from stream_masker.core.ontology.formats.tables import find_snapshots, read_release
from stream_masker.core.random import FieldKeys

SEED, BATCH, VALUES = b"benchmark.......", 10_000, 1_000
EVENT = orjson.dumps(
    {
        "encounter_id": "enc-000001234",
        "patient": {"id": "pat-000000567", "sex": "F", "birth_year": 1951},
        "diagnoses": {
            "principal": {"code": "I21.4", "display": "Non-ST elevation (NSTEMI) myocardial infarction"},
            "secondary": [{"code": "E11.9", "display": "Type 2 diabetes mellitus without complications"}],
        },
        "ward": "cardiology",
        "admitted": "2024-03-01T10:11:12Z",
        "discharged": "2024-03-05T17:00:00Z",
    }
)
RULES = {
    "default": {"rounding": "calibrated", "candidates": "observed", "alpha": 1.0},
    "paper": {"rounding": "ceil", "candidates": "all", "alpha": 0.3},
}


def main() -> None:
    options = arguments(__doc__, {"--records": 100_000, "--concepts": 350_000})
    trip = best(lambda: [orjson.dumps(orjson.loads(EVENT)) for _ in range(BATCH)]) / BATCH
    print(f"an orjson round trip of {len(EVENT)} bytes: {1e6 * trip:.2f} µs")
    with tempfile.TemporaryDirectory() as folder:
        path = write_release(Path(folder, "release"), concepts=options.concepts, seed=1)
        seconds, ontology = timed(lambda: Ontology(arrays_of(read_release(find_snapshots(path)))))
        print(f"a release of {options.concepts:,} concepts is read and ordered in {seconds:.2f} s")
        taxonomies = {"ICD-10-CM": Ontology.load("icd10cm").taxonomy(), "RF2": ontology.taxonomy()}
    head = ("taxonomy", "rule", "a pair, round trips", "mask_one, µs", "first calibration, s", "next, s")
    table("Semantic noise", head, masked(taxonomies, options.records, trip))


def masked(taxonomies: dict[str, Taxonomy], records: int, trip: float) -> Iterator[tuple[str | float, ...]]:
    """Yield the figures of each taxonomy and rule."""
    for name, tau in taxonomies.items():
        codes = pairs(tau, records)
        batch = Batch(records, tuple(map(Column, codes)))
        some, keys = batch.take(np.arange(BATCH)), FieldKeys(SEED, [b"%d" % i for i in range(BATCH)])
        record = {"a": tau.ids[codes[0, 0]], "b": tau.ids[codes[1, 0]]}
        for rule, parameters in RULES.items():
            noise = SemanticNoise({"a": tau, "b": tau}, window=records, seed=SEED, reference="pair", **parameters)
            noise._window.add(batch)
            first, following = (timed(noise.calibrate)[0] for _ in range(2))
            pair = best(partial(noise.mask_batch, some, keys)) / BATCH
            one = best(partial(mask_each, noise, record)) / 100
            yield name, rule, pair / trip, 1e6 * one, first, following


def mask_each(noise: SemanticNoise, record: dict[str, str]) -> None:
    """Mask a record a hundred times, with as many keys."""
    for i in range(100):
        noise.mask_one(record, key=b"%d" % i)


def pairs(tau: Taxonomy, records: int) -> np.ndarray:
    """Return (2, records) positions of leaves; a few are frequent, and the second depends on the first."""
    rng = np.random.default_rng(3)
    values = rng.choice(np.flatnonzero(tau.leaf), VALUES, replace=False)
    law = 1.0 / np.arange(1, VALUES + 1)
    first = rng.choice(VALUES, records, p=law / law.sum())
    second = np.where(rng.random(records) < 0.5, (first + rng.integers(0, 5, records)) % VALUES, rng.permutation(first))
    return values[np.array([first, second])].astype(np.int32)


if __name__ == "__main__":
    main()
