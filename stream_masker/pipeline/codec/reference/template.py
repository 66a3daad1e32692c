"""Templates of output records: JSON with placeholders, filled in once the whole batch is masked.

A decoded record thus exists only while it is read, and a batch holds a few texts for each record instead of all its
objects. A placeholder is a string that no record contains: it begins with a random mark of this process.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

import orjson

_MARK: Final = secrets.token_hex(12)
_SEPARATOR: Final = b'"' + _MARK.encode()
_DIGITS: Final = 9
_KEPT: Final = 1 << 17


class PlaceholderTexts(dict[int, str]):
    """The text of placeholder number n, from 0 on, created on first use. The first ``_KEPT`` texts are kept."""

    def __missing__(self, number: int) -> str:
        text = f"{_MARK}{number:0{_DIGITS}d}"
        if number < _KEPT:
            self[number] = text
        return text


PLACEHOLDERS: Final = PlaceholderTexts()


def split_template(document: dict[str, Any]) -> list[bytes]:
    """Return a document's JSON, split at its placeholders: the text before the first one, then each with the text after
    it."""
    return orjson.dumps(document).split(_SEPARATOR)


def fill_template(pieces: Sequence[bytes], texts: Sequence[bytes]) -> bytes:
    """Return the JSON of a document that was split; ``texts[n]``, also JSON, replaces placeholder number n."""
    filled = [pieces[0]]
    for piece in pieces[1:]:
        filled.append(texts[int(piece[:_DIGITS])])
        filled.append(piece[_DIGITS + 1 :])
    return b"".join(filled)
