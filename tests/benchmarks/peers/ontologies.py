"""Other libraries of ontologies: ``ontologies.py PACKAGE FILE``."""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module

READERS = {"obonet": "read_obo", "fastobo": "load", "pronto": "Ontology"}
IS_A = "rdfs:subClassOf"


def seconds_to_read(package: str, file: str) -> float:
    """Return the processor time of reading an OBO file."""
    read = getattr(import_module(package), READERS[package])
    start = time.process_time()
    read(file)
    return time.process_time() - start


def similarities(package: str, file: str) -> dict[str, object]:
    """Return the share of common ancestors of each pair of a file, and how many a second one call each takes."""
    import networkx as nx

    with open(file) as opened:
        given = json.load(opened)
    graph = nx.DiGraph(given["links"])
    if package == "nxontology":
        from nxontology import NXOntology

        ontology = NXOntology(graph.reverse())
        ontology.freeze()
        similarity = lambda a, b: ontology.similarity(a, b).batet  # noqa: E731
    else:
        from semsimian import Semsimian

        links = [(concept, IS_A, above) for concept in graph for above in (concept, *nx.descendants(graph, concept))]
        similarity = Semsimian(links, [IS_A]).jaccard_similarity
    values = [similarity(a, b) for a, b in given["pairs"]]
    start = time.process_time()
    for a, b in given["pairs"]:
        similarity(a, b)
    return {"rate": len(values) / (time.process_time() - start), "values": values}


print(json.dumps((seconds_to_read if sys.argv[1] in READERS else similarities)(*sys.argv[1:])))
