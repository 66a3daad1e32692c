"""nxontology: the Batet similarity of pairs, the share of common ancestors."""

from __future__ import annotations

import json

import networkx as nx
from nxontology import NXOntology
from timing import report_pairs

with open("links.json") as file:
    links = json.load(file)
ontology = NXOntology(nx.DiGraph([(parent, child) for child, parent in links]))
ontology.freeze()
report_pairs(lambda a, b: ontology.similarity(a, b).batet)
