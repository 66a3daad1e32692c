"""Single similarities of pairs, one call each: the share of common ancestors, by nxontology or semsimian."""

from __future__ import annotations

import json
import sys
import time

import networkx as nx

IS_A = "rdfs:subClassOf"

with open(sys.argv[2]) as file:
    given = json.load(file)
graph = nx.DiGraph(given["links"])
if sys.argv[1] == "nxontology":
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
print(json.dumps({"rate": len(values) / (time.process_time() - start), "values": values}))
