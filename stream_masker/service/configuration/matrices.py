"""Markov matrices from files: JSON ``{value: {value: probability}}``, or a table, CSV or TSV, of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stream_masker.errors import ConfigurationError

TransitionMatrix = dict[str, dict[str, float]]

DELIMITERS: Mapping[str, str] = {".csv": ",", ".tsv": "\t"}


def read_matrix(path: Path) -> TransitionMatrix:
    """Reads a matrix: the row of each value, the probabilities of becoming each other one.

    A table's first line names the columns' values, and each further line begins with its row's; an empty cell is 0.
    Raises ConfigurationError that names the file and the place, for what is no such file; whether the matrix is
    stochastic the mechanism checks.
    """
    if path.suffix == ".json":
        return _from_json(path)
    if path.suffix in DELIMITERS:
        return _from_table(path, DELIMITERS[path.suffix])
    raise ConfigurationError(f"{path}: a matrix is a .json, .csv or .tsv file")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{path}: the matrix cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: the matrix is not UTF-8 text") from None


def _from_json(path: Path) -> TransitionMatrix:
    try:
        data = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}: not JSON (line {error.lineno}, column {error.colno})") from None
    if not isinstance(data, dict) or not all(isinstance(row, dict) for row in data.values()):
        raise ConfigurationError(f"{path}: a matrix is an object of objects: {{value: {{value: probability}}}}")
    return {
        value: {to: _number(p, f"{path}: the row of {value!r}") for to, p in row.items()} for value, row in data.items()
    }


def _from_table(path: Path, delimiter: str) -> TransitionMatrix:
    head, *lines = [*csv.reader(_text(path).splitlines(), delimiter=delimiter)] or [[]]
    columns = head[1:]
    if not columns:
        raise ConfigurationError(f"{path}: the first line of a matrix names its values, after one cell for the rows'")
    matrix: TransitionMatrix = {}
    for number, line in _numbered(lines):
        if len(line) != len(head):
            raise ConfigurationError(f"{path}: line {number} has {len(line)} cells where the first has {len(head)}")
        if line[0] in matrix:
            raise ConfigurationError(f"{path}: line {number}: the row of {line[0]!r} is given twice")
        cells = zip(columns, line[1:], strict=True)
        matrix[line[0]] = {to: _number(cell or "0", f"{path}: line {number}") for to, cell in cells}
    return matrix


def _numbered(lines: list[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Lines with their numbers, empty ones left out."""
    return ((number, line) for number, line in enumerate(lines, start=2) if line)


def _number(given: Any, where: str) -> float:
    try:
        return float("" if isinstance(given, bool) else given)
    except (TypeError, ValueError):
        raise ConfigurationError(f"{where} holds a cell that is no number") from None
