"""Markov matrices from JSON files: ``{value: {value: probability}}``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stream_masker.errors import ConfigurationError

TransitionMatrix = dict[str, dict[str, float]]


def read_matrix(path: Path) -> TransitionMatrix:
    """Read a matrix: for each value, its row of transition probabilities; the mechanism checks that it is stochastic.

    Raises ConfigurationError with the file and the position for invalid files.
    """
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path}: the matrix cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: the matrix is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}: not JSON (line {error.lineno}, column {error.colno})") from None
    if not isinstance(data, dict) or not all(isinstance(row, dict) for row in data.values()):
        raise ConfigurationError(f"{path}: a matrix must be an object of objects: {{value: {{value: probability}}}}")
    return {
        value: {to: _probability(p, f"{path}: the row of {value!r}") for to, p in row.items()}
        for value, row in data.items()
    }


def _probability(given: Any, where: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ConfigurationError(f"{where} has a cell that is not a number")
    return float(given)
