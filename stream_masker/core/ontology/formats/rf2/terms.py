"""Labels and synonyms of SNOMED CT concepts, from the description files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.core.ontology.formats.rf2.table import ColumnKind, ReleaseFile, RowTable, pack_language, read_table
from stream_masker.core.ontology.text_table import TextTable

FULLY_SPECIFIED_NAME: Final = 900000000000003001
SYNONYM: Final = 900000000000013009
ENGLISH: Final = pack_language("en")

DESCRIPTION_HEADER: Final = "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId"
DESCRIPTION_COLUMNS: Final[Mapping[str, ColumnKind]] = {
    "id": "number",
    "active": "flag",
    "conceptId": "number",
    "languageCode": "language",
    "typeId": "number",
    "term": "text",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """n active descriptions of active concepts.

    concepts: (n,) the index of the concept. synonym: (n,) whether the description is a synonym; otherwise it is a fully
    specified name. languages: (n,) 0 for English, otherwise the packed code. ids: (n,) of the descriptions.
    """

    concepts: Int64Array
    synonym: BoolArray
    languages: Int64Array
    ids: Int64Array
    texts: TextTable


def read_terms(index: Callable[[Int64Array], Int64Array], files: Sequence[ReleaseFile]) -> Terms:
    """Read the fully specified names and the synonyms from description files. ``index``: ``ConceptRows.index``."""
    parts = [_terms(index, file) for file in files]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in TERM_COLUMNS}
    return Terms(**columns, texts=_joined([part.texts for part in parts]))


TERM_COLUMNS: Final = tuple(field.name for field in fields(Terms) if field.name != "texts")


def _joined(tables: Sequence[TextTable]) -> TextTable:
    shifts = offsets_from_lengths(np.array([table.blob.size for table in tables]))
    starts, ends = (
        np.concatenate([getattr(table, side) + shift for table, shift in zip(tables, shifts, strict=False)])
        for side in ("starts", "ends")
    )
    return TextTable(np.concatenate([table.blob for table in tables]), starts, ends)


def _terms(index: Callable[[Int64Array], Int64Array], file: ReleaseFile) -> Terms:
    table = read_table(file, DESCRIPTION_HEADER, DESCRIPTION_COLUMNS)
    values = table.values
    concepts, kind = index(values["conceptId"]), values["typeId"]
    names = (kind == FULLY_SPECIFIED_NAME) | (kind == SYNONYM)
    rows = np.flatnonzero((values["active"] == 1) & (concepts >= 0) & names)
    language = values["languageCode"][rows]
    return Terms(
        concepts[rows],
        kind[rows] == SYNONYM,
        np.where(_is_english(language), 0, language),
        values["id"][rows],
        _texts(table, rows),
    )


def _is_english(languages: Int64Array) -> BoolArray:
    """Return whether each packed code is ``en``, with or without a region (``en-GB``)."""
    third = languages >> 40 & 0xFF
    return np.asarray((languages >> 48 == ENGLISH >> 48) & ((third == 0) | (third == ord("-"))))


def _texts(table: RowTable, rows: Int64Array) -> TextTable:
    blob, offsets = table.texts(rows)
    return TextTable(blob, offsets[:-1], offsets[1:])


def labels_and_synonyms(terms: Terms, concepts: int) -> tuple[TextTable, Int64Array, TextTable]:
    """Choose the label and the synonyms of each of m concepts.

    Labels (m,): the fully specified name, the English one if there are several languages; otherwise the first synonym;
    otherwise empty. (Language reference sets, which mark preferred synonyms, are not read.) Synonyms, as compressed
    rows (offsets and texts): every other synonym, English first, then by language and id.
    """
    by_concept = np.lexsort((terms.ids, terms.languages, terms.synonym, terms.concepts))
    owners = terms.concepts[by_concept]
    first = np.diff(owners, prepend=-1) > 0
    synonym = ~first & terms.synonym[by_concept]
    labels = _scattered(terms.texts, by_concept[first], owners[first], concepts)
    offsets = offsets_from_lengths(np.bincount(owners[synonym], minlength=concepts))
    return labels, offsets, terms.texts.take(by_concept[synonym])


def _scattered(texts: TextTable, indices: Int64Array, targets: Int64Array, size: int) -> TextTable:
    """Return a table of ``size`` texts: those at ``indices`` are placed at ``targets``, and all others are empty."""
    starts, ends = np.zeros((2, size), np.int64)
    starts[targets], ends[targets] = texts.starts[indices], texts.ends[indices]
    return TextTable(texts.blob, starts, ends)
