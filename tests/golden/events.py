"""Events of the golden cases: generated ones (flat, nested, FHIR) and the real discharges.

Generated events include malformed values and wrong codes. The generator uses ``Random.random`` only, because its
numbers are the same in every version of Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from support.data import discharges

from golden.adapter import Event, Round

START = 1_600_000_000_000
SECOND = 1_000

Json = dict[str, Any]
Shape = Callable[[int, "Draw"], Json]

JUNK: tuple[bytes | None, ...] = (
    None,
    b"",
    b"no JSON",
    b"[1, 2]",
    b'"text"',
    b"null",
    b'{"id": 1',
    b'{"id": "\xff\xfe"}',
    b'{"id": 1, "id": 2}',
    b'{"id": NaN}',
    b'{"id": 123456789012345678901234567890}',
    b"\xef\xbb\xbf{}",
    b'{"id": "\\ud800"}',
    b"{}",
    b'{"a":' * 80 + b"1" + b"}" * 80,
    b'{"id": "' + b"x" * 6_000 + b'"}',
)
"""Malformed values and tombstones. Some configurations mask the empty object and the last value."""

WRONG: tuple[Any, ...] = (
    None,
    7,
    1.5,
    True,
    "",
    "  ",
    "unknown code",
    "A00.99",
    "local-1",
    [],
    ["A00"],
    {},
    {"code": "A00"},
)
"""Values of wrong types and unknown codes, which replace codes and numbers."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Codes to draw from, the first ones most often. ``correlation``: how often a second code depends on the first."""

    codes: Sequence[str]
    correlation: float = 0.5


class Draw:
    """The numbers of one event."""

    def __init__(self, seed: int, number: int, codes: Codes) -> None:
        self.uniform = Random(seed * 1_000_003 + number).random
        self._codes = codes

    def below(self, bound: int) -> int:
        """An integer of at least 0 and below the bound."""
        return int(self.uniform() * bound)

    def code(self) -> str:
        """A code; the first codes are the most frequent ones."""
        codes = self._codes.codes
        return codes[int(len(codes) * self.uniform() ** 2.5)]

    def companion(self, code: str) -> str:
        """A code that is often near the given one in the list."""
        if self.uniform() >= self._codes.correlation:
            return self.code()
        codes = self._codes.codes
        return codes[(codes.index(code) + self.below(4)) % len(codes)]

    def style(self, code: str) -> str:
        """The code as written: as it is, in lower case, or without its dot."""
        chance = self.uniform()
        if chance < 0.85:
            return code
        return code.lower() if chance < 0.93 else code.replace(".", "")


def flat(number: int, draw: Draw) -> Json:
    """A record of columns."""
    first = draw.code()
    return {
        "id": number,
        "patient": f"p{draw.below(60)}",
        "name": f'Müller "{number}"',
        "age": draw.below(100),
        "stay": round(draw.uniform() ** 3 * 60, 3),
        "sex": "mf"[draw.below(2)],
        "diag_1": draw.style(first),
        "text_1": f"text of {first}",
        "diag_2": draw.style(draw.companion(first)),
        "diag_3": draw.code(),
        "score": -1.5 * draw.uniform(),
        "note": {"free": ["text", 1, None, True, 1e-7, {"deep": "\u00e9\u4e2d\n"}]},
    }


def nested(number: int, draw: Draw) -> Json:
    """A discharge with a principal and several secondary diagnoses."""
    first = draw.code()
    others = [draw.companion(first) for _ in range(draw.below(5))]
    return {
        "encounter": {"id": f"enc-{number}", "ward": draw.below(9)},
        "patient": {"id": f"p{draw.below(60)}", "name": "Ada", "age": 20 + draw.below(70)},
        "privacy": {} if draw.uniform() < 0.3 else {"alpha": (0.1, "0.25", 1, 2.5)[draw.below(4)]},
        "diagnoses": {
            "principal": {"code": draw.style(first), "display": "DISEASE", "rank": 1},
            "secondary": [
                {"code": draw.style(code), "display": f"d {code}", "rank": k} for k, code in enumerate(others)
            ],
        },
        "billing": {"main": first, "all": others, "amount": round(draw.uniform() * 5_000, 2)},
    }


def fhir(number: int, draw: Draw) -> Json:
    """A resource whose codings differ in their system."""
    first = draw.code()
    codings = [{"system": "icd", "code": draw.style(first), "display": "x"}, {"system": "snomed", "code": "1"}]
    reasons = [draw.companion(first) for _ in range(draw.below(4))]
    return {
        "resourceType": "Condition",
        "id": f"c{number}",
        "identifier": [{"use": "old", "value": number}, {"use": "official", "value": f"P{draw.below(80)}"}],
        "code": {"coding": codings if draw.uniform() < 0.6 else codings[::-1], "text": "free text"},
        "onset": {"age": 30 + draw.below(50)},
        "reason": reasons,
        "evidence": [{"code": draw.code(), "kind": kind, "n": kind} for kind in range(1 + draw.below(3))],
    }


def generated(
    shape: Shape, codes: Codes, sizes: Sequence[Sequence[int]], *, seed: int = 1, places: Sequence[str] = ()
) -> list[Round]:
    """Rounds of events; ``sizes``: of each round, the records of each partition. ``places``: of wrong values."""
    rounds: list[Round] = []
    number = 0
    for some in sizes:
        events: dict[int, list[Event]] = {}
        for partition, size in enumerate(some):
            events[partition] = [_event(shape, codes, seed, number + k, places) for k in range(size)]
            number += size
        rounds.append(events)
    return rounds


def _event(shape: Shape, codes: Codes, seed: int, number: int, places: Sequence[str]) -> Event:
    draw = Draw(seed, number, codes)
    document = shape(number, draw)
    if number % 13 == 5 and places:
        document = spoiled(document, places[draw.below(len(places))], draw)
    value = JUNK[draw.below(len(JUNK))] if number % 29 == 11 else written(document, number)
    return Event(value, _key(draw, number), _headers(draw), START + number * SECOND if number % 17 else -1)


def written(document: Json, number: int) -> bytes:
    """JSON with more or less white space, and with or without escapes."""
    separators = ((",", ":"), (", ", ": "), (" ,\t", " :\n "))[number % 7 % 3]
    return json.dumps(document, ensure_ascii=number % 5 == 0, separators=separators).encode()


def spoiled(document: Json, place: str, draw: Draw) -> Json:
    """The event with a wrong value at a place (dotted names and numbers), or without the field."""
    *way, last = place.split(".")
    holder: Any = document
    for step in way:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        if not holder:
            return document
    if isinstance(holder, list):
        holder[0] = WRONG[draw.below(len(WRONG))]
    elif draw.uniform() < 0.2:
        holder.pop(last, None)
    else:
        holder[last] = WRONG[draw.below(len(WRONG))]
    return document


def _key(draw: Draw, number: int) -> bytes | None:
    return (None, b"key %d" % number, b"\xff\x00%d" % draw.below(9), b"")[draw.below(4)]


def _headers(draw: Draw) -> tuple[tuple[str, bytes | None], ...]:
    alpha = (b"0.5", b"2", b"no number", b"1e-3", None)[draw.below(5)] if draw.uniform() < 0.2 else b"0.4"
    headers = (("content-type", b"json"), ("trace", b"\x00\xff"), ("alpha", alpha), ("trace", None))
    return headers[: draw.below(5)]


def real(sizes: Sequence[Sequence[int]]) -> list[Round]:
    """Rounds of the real discharges, in the order of their file."""
    rows = iter(discharges())
    rounds: list[Round] = []
    number = 0
    for some in sizes:
        events: dict[int, list[Event]] = {}
        for partition, size in enumerate(some):
            events[partition] = [_discharge(next(rows), number + k) for k in range(size)]
            number += size
        rounds.append(events)
    return rounds


def _discharge(row: dict[str, str], number: int) -> Event:
    numbers = {name: int(row[name]) for name in ("time_in_hospital", "num_medications", "encounter_id")}
    value = json.dumps({**row, **numbers}).encode()
    return Event(value, row["patient_nbr"].encode(), (), START + number * SECOND)
