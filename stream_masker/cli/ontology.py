"""``stream-masker ontology``: inspect an ontology, and map values to its concepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click
import numpy as np

from stream_masker.cli import SuggestingGroup
from stream_masker.cli.options import output, summarise
from stream_masker.core.ontology import UNKNOWN, ConceptMap, Match, Ontology, Taxonomy
from stream_masker.core.ontology.concepts import UnknownPolicy, read_mapping
from stream_masker.errors import ParameterError, UnknownConceptError, name_some
from stream_masker.service.files.outputs import STANDARD_STREAM

UNMAPPED_STATUS = {"reject": "rejected", "ancestor": "rejected", "suppress": "suppressed"}
"""The result for a value without a concept, by policy."""

MAP_COLUMNS = ("line", "concept", "match")
"""The names of the columns of ``map``."""

REPEATED = ("parent", "child")
"""The names of the lines of a concept that may occur several times."""

root_option = click.option(
    "--root", metavar="CONCEPT", help="Restrict the ontology to this concept and its descendants."
)


@click.group(cls=SuggestingGroup)
def command() -> None:
    """Inspect an ontology: its concepts, and the mapping of values to concepts.

    SOURCE is icd10cm (built in), a file or a folder: an edge list (.csv or .tsv: concept,parent,label), OBO (.obo), OBO
    Graphs, FHIR CodeSystem or ValueSet (.json), ClaML (.xml or .claml) or OWL in RDF/XML (.owl), each optionally with
    .gz; or a SNOMED CT RF2 release (its folder or its .zip).

    \b
    Examples:
      stream-masker ontology inspect icd10cm E11.9
      stream-masker ontology map icd10cm codes.txt --unknown ancestor
    """


@command.command()
@click.argument("source")
@click.argument("concept", required=False)
@click.option("--tree", is_flag=True, help="Print the concepts below CONCEPT, by default below the root, as a tree.")
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    metavar="N",
    help="Levels of the tree below the top.",
)
def inspect(source: str, concept: str | None, tree: bool, depth: int) -> None:
    """Print an ontology's counts, or one CONCEPT.

    CONCEPT is a code or a label. It is printed with its depth, parents and children. With --tree, each concept is
    printed with its label, and with the number of concepts below it where the tree goes on.

    \b
    Examples:
      stream-masker ontology inspect icd10cm
      stream-masker ontology inspect icd10cm --tree
      stream-masker ontology inspect icd10cm E08-E13 --tree --depth 1
      stream-masker ontology inspect icd10cm K29.7
      stream-masker ontology inspect diseases.obo
    """
    ontology = Ontology.load(source)
    taxonomy = ontology.taxonomy()
    if tree:
        top = taxonomy.root if concept is None else _id_of(ontology, taxonomy, concept)
        output("\n".join(_tree(taxonomy, top, depth)), _nested(taxonomy, top, depth))
        return
    lines = _summary(ontology, taxonomy) if concept is None else _concept(taxonomy, _id_of(ontology, taxonomy, concept))
    _print(lines)


def _print(lines: Iterable[tuple[str, object]]) -> None:
    """Print named values; in JSON, those of one name that may occur several times are a list."""
    shown = [(name, value if isinstance(value, int) else str(value)) for name, value in lines]
    figures = {name: value for name, value in shown if name not in REPEATED}
    lists = {name: [value for other, value in shown if other == name] for name in REPEATED}
    output(
        "\n".join(f"{name + ':':<24}{value}" for name, value in shown),
        {**figures, **({} if "concept" not in figures else lists)},
    )


def _summary(ontology: Ontology, taxonomy: Taxonomy) -> Iterator[tuple[str, object]]:
    parents = np.diff(taxonomy.parent_offsets)
    yield "root", _named(taxonomy, ontology.root)
    yield "concepts", len(ontology)
    yield "leaves", int(taxonomy.leaf.sum())
    yield "depth", int(taxonomy.depth.max())
    yield "with several parents", int((parents > 1).sum())
    yield "with a label", sum(map(bool, taxonomy.labels))
    yield "synonyms", sum(len(ontology.synonyms_of(concept)) for concept in ontology.concepts)


def _concept(taxonomy: Taxonomy, concept: str) -> Iterator[tuple[str, object]]:
    yield "concept", concept
    yield "label", taxonomy.label(concept)
    yield "depth", taxonomy.depth_of(concept)
    for parent in taxonomy.parents_of(concept):
        yield "parent", _named(taxonomy, parent)
    for child in taxonomy.children_of(concept):
        yield "child", _named(taxonomy, child)


def _tree(taxonomy: Taxonomy, concept: str, depth: int, indent: str = "") -> Iterator[str]:
    children = list(taxonomy.children_of(concept))
    below = f" [{len(children)} below]" if children and not depth else ""
    yield f"{indent}{_named(taxonomy, concept)}{below}"
    for child in children if depth else ():
        yield from _tree(taxonomy, child, depth - 1, indent + "  ")


def _nested(taxonomy: Taxonomy, concept: str, depth: int) -> dict[str, Any]:
    children = list(taxonomy.children_of(concept))
    below = [_nested(taxonomy, child, depth - 1) for child in children] if depth else []
    return {"concept": concept, "label": taxonomy.label(concept), "children": below, "below": len(children)}


def _named(taxonomy: Taxonomy, concept: str) -> str:
    label = taxonomy.label(concept)
    return f"{concept} ({label})" if label else concept


def _id_of(ontology: Ontology, taxonomy: Taxonomy, value: str) -> str:
    concepts = ConceptMap(taxonomy, unknown="reject", ontology=ontology)
    position = concepts.find(value).position
    if position != UNKNOWN:
        return taxonomy.ids[position]
    if several := concepts.ambiguous(value):
        raise ParameterError(f"{value!r} stands for several concepts: use the code{name_some(tuple(several))}")
    similar = concepts.similar(value)
    advice = f"; did you mean {' or '.join(similar)}?" if similar else ""
    raise ParameterError(
        f"{value!r} is not a concept below {taxonomy.root}: use a code or a label of the ontology{advice}"
    )


def _below(ontology: Ontology, root: str | None) -> Taxonomy:
    try:
        return ontology.taxonomy(root=root)
    except UnknownConceptError:
        raise ParameterError(f"{root!r} is not a concept of the ontology: use a concept id as --root") from None


@command.command("map")
@click.argument("source")
@click.argument("values", type=click.File("rb"), default="-")
@click.option(
    "--unknown",
    type=click.Choice(sorted(UNMAPPED_STATUS)),
    default="reject",
    show_default=True,
    help="Policy for values without a concept.",
)
@click.option(
    "--mapping",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="CSV or TSV file with the header value,concept.",
)
@root_option
def map_values(source: str, values: BinaryIO, unknown: UnknownPolicy, mapping: Path | None, root: str | None) -> None:
    """Map values to concepts.

    Reads one value per line and prints tab-separated lines with the line number, the concept (or rejected, suppressed)
    and the match: exact, normalised, label (or a synonym), mapping, ancestor, ambiguous (several concepts share the
    code or label) or unknown. The values themselves are not printed. VALUES is a file or - (default).

    \b
    Examples:
      stream-masker ontology map icd10cm codes.txt
      cut -d, -f5 visits.csv | stream-masker ontology map icd9.csv.gz --unknown ancestor
    """
    ontology = Ontology.load(source)
    taxonomy = _below(ontology, root)
    concepts = ConceptMap(
        taxonomy, unknown=unknown, mapping=None if mapping is None else read_mapping(mapping), ontology=ontology
    )
    _map_lines(concepts, values, UNMAPPED_STATUS[unknown])


def _map_lines(concepts: ConceptMap, lines: Iterable[bytes], status: str) -> None:
    methods: Counter[str] = Counter()
    for number, line in enumerate(lines, start=1):
        value = line.rstrip(b"\r\n").decode(errors="replace")
        match = concepts.find(value)
        how = "ambiguous" if match.how == "unknown" and concepts.ambiguous(value) else match.how
        columns = [number, _outcome(concepts, match, status), how]
        output("\t".join(map(str, columns)), dict(zip(MAP_COLUMNS, columns, strict=True)))
        methods[how] += 1
    counts = ", ".join(f"{count} {how}" for how, count in methods.most_common())
    summarise(
        f"{methods.total()} values{': ' if counts else ''}{counts}",
        {"values": methods.total(), **methods},
        beside=STANDARD_STREAM,
    )


def _outcome(concepts: ConceptMap, match: Match, status: str) -> str:
    return status if match.position == UNKNOWN else concepts.taxonomy.ids[match.position]
