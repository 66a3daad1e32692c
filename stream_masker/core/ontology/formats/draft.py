"""What the readers of small formats collect: each concept's parents, label and other names."""

from __future__ import annotations

from dataclasses import dataclass, field

from stream_masker.core.ontology.ontology import Ontology


@dataclass(slots=True)
class OntologyDraft:
    """Concepts as a source gives them: parents, label and synonyms of each."""

    parents: dict[str, list[str]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    synonyms: dict[str, list[str]] = field(default_factory=dict)

    def finish(self) -> Ontology:
        """The ontology. Raises like ``Ontology.from_parents``."""
        return Ontology.from_parents(self.parents, self.labels, self.synonyms)
