"""semsimian: the Jaccard similarity of the ancestors of pairs. It gets all ancestors, of which it makes no closure."""

from __future__ import annotations

import json

import networkx as nx
from semsimian import Semsimian
from timing import report_pairs

IS_A = "rdfs:subClassOf"

with open("links.json") as file:
    graph = nx.DiGraph(json.load(file))
links = [(concept, IS_A, above) for concept in graph for above in (concept, *nx.descendants(graph, concept))]
report_pairs(Semsimian(links, [IS_A]).jaccard_similarity)
