"""Descriptions of SNOMED CT concepts: labels and synonyms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.ontology.arrays import offsets_from_lengths
from stream_masker.core.ontology.formats.rf2.table import ColumnKind, File, RowTable, packed_names, read_table
from stream_masker.core.ontology.texts import Texts

FULLY_SPECIFIED_NAME: Final = 900000000000003001
SYNONYM: Final = 900000000000013009
ENGLISH: Final = packed_names("en")

DESCRIPTION: Final = "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId"
WANTED: Final[Mapping[str, ColumnKind]] = {
    "id": "number",
    "active": "flag",
    "conceptId": "number",
    "languageCode": "language",
    "typeId": "number",
    "term": "text",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """n active descriptions of active concepts: the concept's number, what kind it is, language and id, each (n,).

    languages: 0 for English, else the packed code.
    """

    concepts: Int64Array
    synonym: NDArray[np.bool_]
    languages: Int64Array
    ids: Int64Array
    texts: Texts


def read_terms(number: Callable[[Int64Array], Int64Array], files: Sequence[File]) -> Terms:
    """The names (fully specified ones and synonyms) in description files. ``number``: ``Concepts.number``."""
    parts = [_terms(number, file) for file in files]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in TERM_COLUMNS}
    return Terms(**columns, texts=_joined([part.texts for part in parts]))


TERM_COLUMNS: Final = tuple(field.name for field in fields(Terms) if field.name != "texts")


def _joined(tables: Sequence[Texts]) -> Texts:
    shifts = offsets_from_lengths(np.array([table.blob.size for table in tables]))
    starts, ends = (
        np.concatenate([getattr(table, side) + shift for table, shift in zip(tables, shifts, strict=False)])
        for side in ("starts", "ends")
    )
    return Texts(np.concatenate([table.blob for table in tables]), starts, ends)


def _terms(number: Callable[[Int64Array], Int64Array], file: File) -> Terms:
    table = read_table(file, DESCRIPTION, WANTED)
    values = table.values
    concepts, kind = number(values["conceptId"]), values["typeId"]
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


def _is_english(languages: Int64Array) -> NDArray[np.bool_]:
    """``en``, also with a region (``en-GB``)."""
    third = languages >> 40 & 0xFF
    return np.asarray((languages >> 48 == ENGLISH >> 48) & ((third == 0) | (third == ord("-"))))


def _texts(table: RowTable, rows: Int64Array) -> Texts:
    blob, offsets = table.texts(rows)
    return Texts(blob, offsets[:-1], offsets[1:])


def labels_and_synonyms(terms: Terms, order: Int64Array) -> tuple[Texts, Int64Array, Texts]:
    """Names by position; ``order``: the number of the concept at each position.

    Labels (m,): the fully specified name, which is unique, in English where there is one; then the first synonym, then
    nothing. (Which synonym is preferred is said in language reference sets, which are not read.) Synonyms, one
    concept's after another's with (m + 1,) where each starts: those that are no label, of every language, English
    first, then by language and id.
    """
    m = order.size
    position = np.empty(m, np.int64)
    position[order] = np.arange(m)
    owners = position[terms.concepts]
    by_owner = np.lexsort((terms.ids, terms.languages, terms.synonym, owners))
    owners = owners[by_owner]
    first = np.diff(owners, prepend=-1) > 0
    synonym = ~first & terms.synonym[by_owner]
    labels = _spread(terms.texts, owners[first], by_owner[first], m)
    return labels, offsets_from_lengths(np.bincount(owners[synonym], minlength=m)), terms.texts.take(by_owner[synonym])


def _spread(texts: Texts, positions: Int64Array, indices: Int64Array, size: int) -> Texts:
    """A table in which these positions have these texts, and all others none."""
    starts, ends = np.zeros((2, size), np.int64)
    starts[positions], ends[positions] = texts.starts[indices], texts.ends[indices]
    return Texts(texts.blob, starts, ends)
