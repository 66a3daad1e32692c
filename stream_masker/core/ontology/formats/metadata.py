"""The metadata files of ICD-10 (WHO), ICD-10-GM and OPS: tables without a header, one file for each level.

The file of codes (``…_kodes.txt`` or ``…_codes.txt``) has one row for each code, with semicolons: its level, whether it
is terminal, its kind, chapter, first category of its group, category, code, another form of it, and title. The files
of chapters, groups and, for OPS, categories beside it name the levels above.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stream_masker.core.ontology.draft import OntologyDraft, add_common_root, longest_start
from stream_masker.errors import SourceFormatError

_CHAPTER, _GROUP, _CODE, _TITLE = 3, 4, 6, 8
_CODES: Final = re.compile(r"(.*)_(?:kodes|codes)(\d*)\.txt", re.IGNORECASE)
_LEVELS: Final = {
    "chapters": ("kapitel", "chapters"),
    "groups": ("gruppen", "groups", "blocks"),
    "categories": ("dreisteller",),
}


@dataclass(slots=True)
class UpperLevels:
    """The levels above the codes.

    chapters: titles by number. groups: id and title by first category. categories: chapter, group and title by code.
    """

    chapters: dict[str, str] = field(default_factory=dict)
    groups: dict[str, tuple[str, str]] = field(default_factory=dict)
    categories: dict[str, tuple[str, str, str]] = field(default_factory=dict)


def is_metadata(row: Sequence[str]) -> bool:
    """Return whether a row is one of a file of codes."""
    return len(row) > _TITLE and row[0].strip() in {"3", "4", "5", "6"} and row[1].strip() in {"T", "N"}


def upper_files(path: Path) -> dict[Path, str]:
    """Return the files beside a file of codes, with the level that each one names; none for other files."""
    match = _CODES.fullmatch(path.name)
    stem, year = match.groups() if match else ("", "")
    names = {path.with_name(f"{stem}_{name}{year}.txt"): level for level in _LEVELS for name in _LEVELS[level] if stem}
    return {file: level for file, level in names.items() if file.is_file()}


def read_levels(files: Mapping[Path, str]) -> UpperLevels:
    """Read the files of the upper levels. Raises SourceFormatError for a row that is too short."""
    levels = UpperLevels()
    for path, level in files.items():
        lines = io.StringIO(table_text(path.read_bytes()), newline="")
        _add_level(levels, level, csv.reader(lines, delimiter=";"), path)
    return levels


def table_text(content: bytes) -> str:
    """Return the text of a table: UTF-8, otherwise Windows-1252. Raises SourceFormatError."""
    for encoding in ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            return content.decode(encoding)
    raise SourceFormatError("the text is neither UTF-8 nor Windows-1252: save it as UTF-8")


def _add_level(levels: UpperLevels, level: str, rows: Iterable[list[str]], path: Path) -> None:
    least = {"chapters": 2, "groups": 4, "categories": 4}[level]
    for number, row in enumerate(rows, start=1):
        cells = [cell.strip() for cell in row]
        if len(cells) < least:
            raise SourceFormatError(f"{path}: line {number} has less than {least} columns")
        if level == "chapters":
            levels.chapters[cells[0]] = cells[1]
        elif level == "categories":
            levels.categories[cells[2]] = (cells[0], cells[1], cells[3])
        else:
            # OPS: chapter, first, last, title. ICD-10: first, last, chapter, title.
            first, last = cells[1:3] if cells[0].isdigit() else cells[:2]
            levels.groups[first] = (f"{first}{'...' if '-' in first else '-'}{last}", cells[3])


def read_metadata(rows: Iterator[list[str]], levels: UpperLevels) -> OntologyDraft:
    """Read the rows of a file of codes.

    The parent of a code is the longest code that it starts with, otherwise its group, or its chapter if groups are not
    named. Chapters have their numbers as ids, and a common root. Raises SourceFormatError for a row that is too short.
    """
    places = dict(levels.categories)
    for number, row in enumerate(rows, start=1):
        if not any(row):
            continue
        if not is_metadata(row):
            raise SourceFormatError(f"line {number} is not that of a code, as those above")
        cells = [cell.strip() for cell in row]
        places.setdefault(cells[_CODE], (cells[_CHAPTER], cells[_GROUP], cells[_TITLE]))
    draft = OntologyDraft()
    for code, (chapter, first, title) in places.items():
        draft.labels[code] = title
        draft.parents[code] = longest_start(code, places) or [_upper(draft, levels, chapter, first)]
    add_common_root(draft)
    return draft


def _upper(draft: OntologyDraft, levels: UpperLevels, chapter: str, first: str) -> str:
    """Add the group of a code and its chapter, and return the lower one."""
    draft.parents.setdefault(chapter, [])
    draft.labels.setdefault(chapter, levels.chapters.get(chapter, ""))
    if first not in levels.groups:
        return chapter
    group, title = levels.groups[first]
    draft.parents.setdefault(group, [chapter])
    draft.labels.setdefault(group, title)
    return group
