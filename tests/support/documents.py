"""Events of any content, written as JSON in many ways, and what spoils them."""

from __future__ import annotations

import json
import random
from typing import Any

CODES = [
    "I10",
    "i10",
    "I11.0",
    "I110",
    "E11.9",
    "e119",
    "E1165",
    "E11.65",
    "E03",
    "E11.99",
    "I11",
    "Diabetes",
    "type 2 diabetes",
]
ODD_CODES = ["", " ", "nothing", "I10 ", "E11é", "ÉTAT", "ß", "I10" * 100]
TEXTS = ["Diabetes", "DIABETES", "état", "ÉTAT", "a b", "ab", "42", "x" * 200, "日本語", "🙂", "I10"]
ODD_TEXTS = ['say "x"', "back\\slash", "tab\t", "nul\x00", "\x1f", "\x7f", "\u2028", "/", "a/b"]
NUMBERS = [
    0,
    1,
    -1,
    42,
    10**17,
    10**18,
    10**19,
    2**64 - 1,
    2**64,
    -(2**63),
    0.5,
    -0.5,
    1.5,
    1e-3,
    1e-7,
    1e22,
    123456.789,
]
RAW_NUMBERS = [
    "-0",
    "-0.0",
    "1.0",
    "1.50",
    "0.000",
    "1e5",
    "1E5",
    "0.10",
    "00",
    "01",
    "1.",
    ".5",
    "-",
    "+1",
    "NaN",
    "1e400",
    "0.1e1",
]


JUNK = b'"\\{}[],: 0-.eEtfn/u\x00\x1f\x7f\x80\xc3\xed\xf4\xff\xef\xbb'


def places(value, place=()):
    """Every place in a value: the keys and indexes that lead there."""
    yield place
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*place, key))


def put(value, place, new):
    """The value with another one at a place."""
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(value[place[0]], place[1:], new)
    return copy


def written(value: Any, chance: random.Random) -> str:
    """A value as JSON in one of many ways: white space, escapes, keys there twice, numbers as nobody writes them."""
    space = chance.choice(["", "", "", " ", "\n\t", "\r"])
    if isinstance(value, dict):
        members = [(key, inner) for key, inner in value.items()]
        if members and chance.random() < 0.03:
            members.append(chance.choice(members))
        chance.random() < 0.3 and chance.shuffle(members)
        parts = [f"{written(key, chance)}{space}:{space}{written(inner, chance)}" for key, inner in members]
        return "{" + space + f"{space},{space}".join(parts) + space + "}"
    if isinstance(value, list):
        return "[" + space + f",{space}".join(written(inner, chance) for inner in value) + space + "]"
    if chance.random() < 0.01:
        return chance.choice(RAW_NUMBERS)
    try:
        text = json.dumps(value, ensure_ascii=chance.random() < 0.3)
        return text.replace("a", chance.choice(["\\u0061", "\\/"])) if chance.random() < 0.03 else text
    except ValueError:
        return "null"
