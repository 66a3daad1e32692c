"""Time to seal and open calibration blocks, compared with the time to encode and decode them.

python tests/benchmarks/bench_sealing.py
"""

from __future__ import annotations

import numpy as np
from measuring import best

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics.counts import count_batch
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.blocks import block_key, decode_block, encode_block
from stream_masker.pipeline.wire.sealing import TopicSeal

RECORDS, REPEATS = 5_000, 50
SEAL = TopicSeal("stream-masker.calibration", [bytes(range(32))])


def main() -> None:
    tau = Ontology.load("icd10cm").taxonomy()
    taxonomies = {"principal": tau, "secondary": tau}
    block = sample_block(len(tau))
    key, raw = block_key(block), encode_block(block, taxonomies, configuration="0")
    sealed = SEAL.seal(key, raw)
    print(f"a block of {RECORDS:,} records, {len(raw):,} bytes, sealed {len(sealed):,} bytes")
    for name, action in {
        "encode": lambda: encode_block(block, taxonomies, configuration="0"),
        "seal": lambda: SEAL.seal(key, raw),
        "open": lambda: SEAL.open(key, sealed),
        "decode": lambda: decode_block(raw, taxonomies),
    }.items():
        print(f"{name:>8} {best(action, repeats=REPEATS) * 1e6:10,.0f} µs")


def sample_block(concepts: int) -> Block:
    """Return a block of two attributes with Zipf-distributed codes."""
    rng = np.random.default_rng(1)
    sides = []
    for _ in range(2):
        columns = tuple(Column((rng.zipf(1.3, RECORDS) % concepts).astype(np.int32)) for _ in range(2))
        sides.append(count_batch(Batch(RECORDS, columns), (concepts, concepts)))
    return Block("discharges", 0, 0, RECORDS - 1, 0, 1, *sides, (Distortion(), Distortion()), {})


if __name__ == "__main__":
    main()
