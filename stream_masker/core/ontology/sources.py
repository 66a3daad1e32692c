"""Where ontologies come from: edge lists (CSV, TSV), OBO files, and ICD-10-CM by name."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from stream_masker.core.ontology import cache
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.errors import DuplicateConceptError, EmptyOntologyError, OntologyError

ICD10CM_ROOT = "ICD10CM"


@dataclass(slots=True)
class _Draft:
    """Concepts as a source gives them: parents, label and synonyms of each."""

    parents: dict[str, list[str]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    synonyms: dict[str, list[str]] = field(default_factory=dict)

    def finish(self) -> Ontology:
        return Ontology.from_parents(self.parents, self.labels, self.synonyms)


def load(source: str | Path) -> Ontology:
    """The ontology of a name or a file. Raises OntologyError when it is neither, or does not hold one."""
    if str(source) in NAMED:
        return NAMED[str(source)]()
    path = Path(source)
    reader = READERS.get(path.name.removesuffix(".gz")[-4:].lower())
    if reader is None:
        raise OntologyError(
            f"{source} is no ontology: give a name ({', '.join(sorted(NAMED))}) "
            f"or a file ending in {', '.join(sorted(READERS))}, each with or without .gz"
        )
    return _load_file(path, reader)


def _load_file(path: Path, reader: Callable[[TextIO], _Draft]) -> Ontology:
    try:
        key = cache.file_key(path) + path.name.removesuffix(".gz")[-4:].lower()
    except OSError as error:
        raise OntologyError(f"{path} cannot be opened: {error.strerror}") from None
    return cache.through_cache(key, path.name, lambda: _read(path, reader))


def _read(path: Path, reader: Callable[[TextIO], _Draft]) -> Ontology:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as raw:
            return reader(io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")).finish()
    except OntologyError as error:
        error.args = (f"{path}: {error}",)
        raise
    except UnicodeDecodeError:
        raise OntologyError(f"{path} is not UTF-8 text") from None
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise OntologyError(f"{path} cannot be read: {error}") from None


def read_csv(lines: TextIO) -> _Draft:
    """An edge list with the header ``concept,parent,label``, separated by commas."""
    return _read_edges(csv.reader(lines))


def read_tsv(lines: TextIO) -> _Draft:
    """An edge list with the header ``concept	parent	label``, separated by tabs."""
    return _read_edges(csv.reader(lines, delimiter="\t"))


def _read_edges(rows: Iterator[list[str]]) -> _Draft:
    header = [name.strip().lower() for name in next(rows, [])]
    if not header:
        raise EmptyOntologyError("the file is empty")
    if header[:2] != ["concept", "parent"]:
        raise OntologyError("the first line must be concept,parent or concept,parent,label")
    draft = _Draft()
    for number, row in enumerate(rows, start=2):
        if row:
            _add_edge(draft, row, number)
    _root_of_edges(draft)
    return draft


def _add_edge(draft: _Draft, row: list[str], number: int) -> None:
    if len(row) < 2 or not row[0].strip():
        raise OntologyError(f"line {number} does not name a concept and its parent")
    concept, parent, label = (*(cell.strip() for cell in row[:3]), "")[:3]
    known = draft.parents.setdefault(concept, [])
    if parent in known or (not parent and concept in draft.labels):
        raise DuplicateConceptError(f"line {number} repeats a concept with the same parent", culprits=[concept])
    if draft.labels.get(concept, label) != label and label:
        raise DuplicateConceptError(f"line {number} gives a concept another label", culprits=[concept])
    if parent:
        known.append(parent)
    draft.labels[concept] = label or draft.labels.get(concept, "")


def _root_of_edges(draft: _Draft) -> None:
    """Where no row has an empty parent, the one parent that has no row of its own is the root."""
    undeclared = {p for above in draft.parents.values() for p in above if p not in draft.parents}
    if len(undeclared) == 1 and all(draft.parents.values()):
        draft.parents[undeclared.pop()] = []


def read_obo(lines: TextIO) -> _Draft:
    """An OBO 1.2 or 1.4 file: its ``[Term]`` stanzas that are not obsolete; id, name, is_a, synonym and alt_id."""
    draft = _Draft()
    for stanza in _stanzas(lines):
        if stanza.get("is_obsolete", ["false"])[0] != "true":
            _add_term(draft, stanza)
    return draft


def _stanzas(lines: Iterable[str]) -> Iterator[dict[str, list[str]]]:
    stanza: dict[str, list[str]] | None = None
    for line in map(str.strip, lines):
        if line.startswith("["):
            if stanza:
                yield stanza
            stanza = {} if line == "[Term]" else None
        elif stanza is not None and ":" in line:
            tag, _, value = line.partition(":")
            stanza.setdefault(tag, []).append(value.strip())
    if stanza:
        yield stanza


def _add_term(draft: _Draft, stanza: dict[str, list[str]]) -> None:
    concept = _identifier(stanza.get("id", [""])[0])
    if not concept:
        raise OntologyError("a [Term] has no id")
    if concept in draft.parents:
        raise DuplicateConceptError("a [Term] is given twice", culprits=[concept])
    draft.parents[concept] = [_identifier(value) for value in stanza.get("is_a", [])]
    draft.labels[concept] = stanza.get("name", [""])[0]
    quoted = (re.match(r'"((?:[^"\\]|\\.)*)"', value) for value in stanza.get("synonym", []))
    names = [re.sub(r"\\(.)", r"\1", match.group(1)) for match in quoted if match]
    draft.synonyms[concept] = names + [_identifier(value) for value in stanza.get("alt_id", [])]


def _identifier(value: str) -> str:
    return re.split(r"\s|!|\{", value, maxsplit=1)[0]


def icd10cm() -> Ontology:
    """ICD-10-CM of the package simple-icd-10-cm: 98,505 chapters, blocks and codes, under the root ``ICD10CM``.

    39 blocks hold a single category and go by its name; they are told apart as ranges (block ``B10-B10`` over ``B10``).
    """
    return cache.through_cache(cache.package_key("simple-icd-10-cm"), "icd10cm", lambda: _icd10cm().finish())


def _icd10cm() -> _Draft:
    import simple_icd_10_cm as icd

    draft = _Draft({ICD10CM_ROOT: []}, {ICD10CM_ROOT: "ICD-10-CM"})
    for code in icd.get_all_codes(with_dots=True):
        parent = icd.get_parent(code) or ICD10CM_ROOT
        concept = code
        if parent == code:
            parent = f"{code}-{code}"
            if parent not in draft.parents:
                concept, parent = parent, icd.get_ancestors(code)[-1]
        draft.parents[concept] = [parent]
        draft.labels[concept] = icd.get_description(code)
    return draft


NAMED: dict[str, Callable[[], Ontology]] = {"icd10cm": icd10cm}
READERS: dict[str, Callable[[TextIO], _Draft]] = {".csv": read_csv, ".tsv": read_tsv, ".obo": read_obo}
