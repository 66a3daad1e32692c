"""semsimian: the Jaccard similarity of the ancestors of pairs, to which a concept belongs by a link to itself."""

from __future__ import annotations

import json

from semsimian import Semsimian
from timing import report_pairs

IS_A = "rdfs:subClassOf"

with open("links.json") as file:
    links = json.load(file)
own = {concept for link in links for concept in link}
ontology = Semsimian([(child, IS_A, parent) for child, parent in (*links, *((c, c) for c in own))], [IS_A])
report_pairs(ontology.jaccard_similarity)
