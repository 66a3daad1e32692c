"""Readers of ontology file formats, one module for each.

Each reader returns a ``Draft`` of what the source says. Readers check the syntax of the source; ``Ontology`` checks
that the links form a hierarchy. To add a format, write a reader and list its suffix in ``core.ontology.sources``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stream_masker.errors import OntologyError


@dataclass(slots=True)
class Draft:
    """The parents, the label and the synonyms of each concept id. The keys of ``parents`` are the concepts.

    root, root_label: the id and the label of the concept to add above if several have no parent.
    """

    parents: dict[str, list[str]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    synonyms: dict[str, list[str]] = field(default_factory=dict)
    root: str = "ROOT"
    root_label: str = ""

    def add(self, concept: str, parents: list[str], label: str, synonyms: list[str]) -> None:
        """Add a concept; parents that are named twice count once. Raises OntologyError if it was added before."""
        if concept in self.parents:
            raise OntologyError("a concept is given twice", culprits=[concept])
        self.parents[concept] = list(dict.fromkeys(parents))
        self.labels[concept] = label
        self.synonyms[concept] = synonyms
