"""Records without an ontology, whose values are directly below one root; and the bank example of 2012 (Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stream_masker.core.batch import Batch
from stream_masker.core.mechanisms import encoding
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.statistics import Counts, count_batch

BANK = [
    {"client": "01", "branch": "07", "product": "10", "advisor": "14"},
    {"client": "02", "branch": "07", "product": "11", "advisor": "14"},
    {"client": "03", "branch": "08", "product": "12", "advisor": "15"},
    {"client": "04", "branch": "08", "product": "13", "advisor": "16"},
    {"client": "05", "branch": "09", "product": "13", "advisor": "16"},
    {"client": "06", "branch": "09", "product": "12", "advisor": "16"},
    {"client": "06", "branch": "09", "product": "11", "advisor": "17"},
]
"""The vertices of 2012's Figure 1, by their numbers."""

ROOT = "any"


def flat(values: Sequence[str]) -> Taxonomy:
    """A taxonomy of a root and the values directly below it."""
    return Ontology.from_edges([(value, ROOT) for value in sorted(set(values))]).taxonomy()


def flat_taxonomies(records: Sequence[Mapping[str, str]]) -> dict[str, Taxonomy]:
    """A flat taxonomy for each attribute of the records."""
    return {name: flat([record[name] for record in records]) for name in records[0]}


def batch_of(records: Sequence[Mapping[str, str]], taxonomies: Mapping[str, Taxonomy]) -> Batch:
    return encoding.encode(records, taxonomies)


def counts_of(records: Sequence[Mapping[str, str]], taxonomies: Mapping[str, Taxonomy]) -> Counts:
    return count_batch(batch_of(records, taxonomies), [len(tau) for tau in taxonomies.values()])
