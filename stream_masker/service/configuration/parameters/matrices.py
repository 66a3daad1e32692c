"""Markov matrices from files: JSON ``{value: {value: probability}}``, or a CSV or TSV table."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stream_masker.errors import ConfigurationError

TransitionMatrix = dict[str, dict[str, float]]

MATRIX_DELIMITERS: Mapping[str, str] = {".csv": ",", ".tsv": "\t"}


def read_matrix(path: Path) -> TransitionMatrix:
    """Read a matrix: for each value, its row of transition probabilities.

    The first line of a table names the values of the columns; each further line starts with the value of its row. An
    empty cell is 0. Raises ConfigurationError with the file and the position for invalid files. The mechanism checks
    that the matrix is stochastic.
    """
    if path.suffix == ".json":
        return _from_json(path)
    if path.suffix in MATRIX_DELIMITERS:
        return _from_table(path, MATRIX_DELIMITERS[path.suffix])
    raise ConfigurationError(f"{path}: a matrix must be a .json, .csv or .tsv file")


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
        raise ConfigurationError(f"{path}: a matrix must be an object of objects: {{value: {{value: probability}}}}")
    return {
        value: {to: _probability(p, f"{path}: the row of {value!r}") for to, p in row.items()}
        for value, row in data.items()
    }


def _from_table(path: Path, delimiter: str) -> TransitionMatrix:
    head, *lines = [*csv.reader(_text(path).splitlines(), delimiter=delimiter)] or [[]]
    columns = head[1:]
    if not columns:
        raise ConfigurationError(f"{path}: the first line must name the values of the columns, after an empty cell")
    matrix: TransitionMatrix = {}
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        if len(line) != len(head):
            raise ConfigurationError(f"{path}: line {number} has {len(line)} cells, but the first has {len(head)}")
        if line[0] in matrix:
            raise ConfigurationError(f"{path}: line {number}: the row of {line[0]!r} is a duplicate")
        cells = zip(columns, line[1:], strict=True)
        matrix[line[0]] = {to: _probability(cell or "0", f"{path}: line {number}") for to, cell in cells}
    return matrix


def _probability(given: Any, where: str) -> float:
    try:
        return float("" if isinstance(given, bool) else given)
    except (TypeError, ValueError):
        raise ConfigurationError(f"{where} has a cell that is not a number") from None
