"""Records written before their codes are known: JSON with gaps, filled in once a whole batch is masked.

So a decoded record lives only while it is read, and one batch holds texts instead of a hundred thousand objects. A gap
is a string that nothing else can be, for it holds a random mark of this process; whatever stood there is gone.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

import orjson

_MARK: Final = secrets.token_hex(12)
_CUT: Final = b'"' + _MARK.encode()
_DIGITS: Final = 9
_KEPT: Final = 1 << 17


class PlaceholderList(dict[int, str]):
    """The text that marks gap number n, from 0; made on first use, and the first ``_KEPT`` are kept."""

    def __missing__(self, number: int) -> str:
        text = f"{_MARK}{number:0{_DIGITS}d}"
        if number < _KEPT:
            self[number] = text
        return text


PLACEHOLDERS: Final = PlaceholderList()


def split_template(document: dict[str, Any]) -> list[bytes]:
    """The document's JSON, cut at its gaps: what is before the first, and then each gap with what follows it."""
    return orjson.dumps(document).split(_CUT)


def fill_template(pieces: Sequence[bytes], texts: Sequence[bytes]) -> bytes:
    """The JSON of a document that was cut, with ``texts[n]``, JSON too, in gap number n."""
    filled = [pieces[0]]
    for piece in pieces[1:]:
        filled.append(texts[int(piece[:_DIGITS])])
        filled.append(piece[_DIGITS + 1 :])
    return b"".join(filled)
