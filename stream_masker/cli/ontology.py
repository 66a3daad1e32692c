"""``stream-masker ontology``: inspect an ontology, and map values to its concepts."""

from __future__ import annotations

from collections import Counter
from typing import BinaryIO

import click

from stream_masker.cli.options import Group, output, summarise
from stream_masker.core.ontology import UNKNOWN, ConceptMap, Ontology
from stream_masker.errors import ParameterError
from stream_masker.service.files.streams import STANDARD_STREAM


@click.group(cls=Group)
def command() -> None:
    """Inspect an ontology: its concepts, and the mapping of values to concepts.

    SOURCE is icd10cm (built in), or a file or folder of a format that docs/ontologies.md lists, such as an edge list
    (.csv: concept,parent,label), OBO (.obo) or a SNOMED CT RF2 release (.zip).
    """


@command.command()
@click.argument("source")
@click.argument("concept", required=False)
def inspect(source: str, concept: str | None) -> None:
    """Print an ontology's counts, or one CONCEPT with its depth, parents and children.

    CONCEPT is a code or a label.

    \b
    Examples:
      stream-masker ontology inspect diseases.obo
      stream-masker ontology inspect icd10cm K29.7
    """
    ontology = Ontology.load(source)
    figures = _counts(ontology) if concept is None else _concept(ontology, concept)
    rows = ((name, one) for name, value in figures.items() for one in (value if isinstance(value, list) else [value]))
    output("\n".join(f"{name + ':':<24}{one}" for name, one in rows), figures)


def _counts(ontology: Ontology) -> dict[str, object]:
    return {
        "root": _named(ontology, ontology.root),
        "concepts": len(ontology),
        "leaves": int(ontology.leaf.sum()),
        "depth": int(ontology.depth.max()),
        "with a label": sum(map(bool, ontology.labels)),
    }


def _concept(ontology: Ontology, value: str) -> dict[str, object]:
    """Return the figures of the concept of a code or label. Raises ParameterError if there is none, or several."""
    match = ConceptMap(ontology).find(value)
    if match.position == UNKNOWN:
        raise ParameterError(f"{value!r} is not the code or label of one concept of the ontology ({match.how})")
    found = ontology.ids[match.position]
    return {
        "concept": found,
        "label": ontology.label(found),
        "depth": int(ontology.depth[match.position]),
        "parent": [_named(ontology, parent) for parent in ontology.parents_of(found)],
        "child": [_named(ontology, child) for child in ontology.children_of(found)],
    }


def _named(ontology: Ontology, concept: str) -> str:
    return f"{concept} ({label})" if (label := ontology.label(concept)) else concept


@command.command("map")
@click.argument("source")
@click.argument("values", type=click.File("rb"), default="-")
def map_values(source: str, values: BinaryIO) -> None:
    """Map values to concepts.

    Reads one value per line and prints tab-separated lines with the line number, the concept (or -) and the match:
    exact, normalised, label (or a synonym), ancestor (which `unknown: ancestor` uses), ambiguous (several
    concepts share the code or label) or unknown. Values are not printed. VALUES is a file or - (default).

    \b
    Examples:
      stream-masker ontology map icd10cm codes.txt
      cut -d, -f5 visits.csv | stream-masker ontology map icd9.csv.gz
    """
    ontology = Ontology.load(source)
    concepts, methods = ConceptMap(ontology, unknown="ancestor"), Counter[str]()
    for number, line in enumerate(values, start=1):
        value = line.rstrip(b"\r\n").decode(errors="replace")
        match = concepts.find(value)
        concept = "-" if match.position == UNKNOWN else ontology.ids[match.position]
        output(f"{number}\t{concept}\t{match.how}", {"line": number, "concept": concept, "match": match.how})
        methods[match.how] += 1
    text = f"{methods.total()} values: " + ", ".join(f"{count} {how}" for how, count in methods.most_common())
    summarise(text.removesuffix(": "), {"values": methods.total(), **methods}, beside=STANDARD_STREAM)
