"""Events with canaries, texts and numbers that no output may contain, in every place of an event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from service import CODES

TEXT = "zq7canary"
NUMBER = 7_313_377_313
CANARIES = (TEXT.encode(), str(NUMBER).encode())


def events() -> Iterator[dict[str, Any]]:
    """Records as arguments of ``kafka_records.write``: values with canaries, masked ones and rejected ones."""
    for value in (*masked_values(), *rejected_values()):
        headers = [(TEXT, TEXT.encode()), ("alpha", TEXT.encode()), ("trace", None)]
        yield {"value": value, "key": TEXT.encode(), "headers": headers}


def masked_values() -> Iterator[bytes]:
    """Values that can be masked, with canaries in fields that are removed or replaced."""
    for number in range(40):
        whole = {**event(number), "name": TEXT, "phone": NUMBER, TEXT: {TEXT: [TEXT, NUMBER]}, "notes": [TEXT, None]}
        yield orjson.dumps(whole)
        yield orjson.dumps(whole, option=orjson.OPT_INDENT_2)


def rejected_values() -> Iterator[bytes]:
    """Values that cannot be masked, for every kind of reason."""
    places: list[dict[str, Any]] = [
        {"first": TEXT},
        {"first": {TEXT: TEXT}},
        {"first": [TEXT]},
        {"first": NUMBER},
        {"first": f"{CODES[0]}{TEXT}"},
        {"first": None, "second": TEXT},
        {"others": [{"code": TEXT, "text": TEXT}]},
        {"others": [{"code": CODES[0], "text": {TEXT: NUMBER}}, TEXT]},
        {"others": TEXT},
        {"age": TEXT},
        {"age": NUMBER},
        {"age": {TEXT: NUMBER}},
        {"patient": TEXT},
        {"patient": {"id": {TEXT: TEXT}}},
        {"patient": {"id": [NUMBER, TEXT]}},
        {"alpha": TEXT},
        {"alpha": NUMBER},
        {"id": None, "first": TEXT},
    ]
    for number, place in enumerate(places):
        yield orjson.dumps({**event(number), **place})
    whole = orjson.dumps({**event(1), "name": TEXT})
    yield whole[:-1]
    yield whole + TEXT.encode()
    yield whole.replace(b'"name"', b'"first":"C00","name"')
    yield b'{"first": ' + str(NUMBER).encode() + b"e999}"
    yield b"\xff\xfe" + TEXT.encode()
    yield f'"{TEXT}"'.encode()
    yield f"[{NUMBER}]".encode()
    yield b'{"name": ' + b"[" * 3_000 + f'"{TEXT}"'.encode() + b"]" * 3_000 + b"}"
    yield orjson.dumps({**event(2), "name": TEXT * 30_000})


def event(number: int) -> dict[str, Any]:
    """An event with all attributes; its code and text are values of the ontology."""
    first, second = CODES[number % len(CODES)], CODES[7 * number % len(CODES)]
    return {
        "id": number,
        "patient": {"id": f"{TEXT}{number % 5}"},
        "first": first,
        "second": second,
        "others": [{"code": second, "text": f"{TEXT} in the event's own words"}],
        "age": 20 + number,
        "alpha": 0.5,
    }


ATTRIBUTES = {
    "first": {"path": "first", "ontology": "small"},
    "second": {"path": "second", "ontology": "small", "missing": "keep"},
    "others": {"path": "others[*].code", "label": "others[*].text", "ontology": "small", "missing": "keep"},
}


def found_in(content: bytes) -> list[bytes]:
    """The canaries in an output, in any case."""
    return [canary for canary in CANARIES if canary in content.lower()]
