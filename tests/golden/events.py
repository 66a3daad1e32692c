"""The events of the golden cases, and the ontologies of their codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

Json = dict[str, Any]
Links = list[tuple[str, str]]

JUNK = (b"", b"no JSON", b"[1, 2]", b"null", b'{"id": 1', b'{"id": "\xff\xfe"}', b'{"id": NaN}', b'{"id": "\\ud800"}')
"""Malformed lines."""

WRONG: tuple[Any, ...] = (None, 7, 1.5, True, "", "  ", "unknown code", "A00.99", "local-1", [], ["A00"], {})
"""Values of wrong types and unknown codes, which replace codes and numbers."""


def tree_links() -> Links:
    """Chapters A to E of unequal sizes; below them categories (``A01``), and codes with a dot (``A01.1``)."""
    links: Links = []
    for chapter, size in zip("ABCDE", (3, 5, 2, 6, 4), strict=True):
        links.append((f"chapter {chapter}", "all"))
        for category in range(size):
            code = f"{chapter}{category:02d}"
            links.append((code, f"chapter {chapter}"))
            links += [(f"{code}.{k}", code) for k in range((category * 3 + size) % 6)]
    return links


def graph_links(concepts: int = 1_000, hubs: int = 12) -> Links:
    """A hierarchy of many levels; two in five concepts have a second parent near the first."""
    draw = Random(7).random
    links = [(f"c{number:04d}", "c0000") for number in range(1, hubs + 1)]
    for number in range(hubs + 1, concepts):
        first = 1 + int((number - 1) * (0.35 + 0.3 * draw() ** 2) * draw() ** 0.2)
        parents = {first}
        if draw() < 0.4:
            parents.add(max(1, min(number - 1, first + int(draw() * 9) - 4)))
        links += [(f"c{number:04d}", f"c{parent:04d}") for parent in sorted(parents)]
    return links


LINKS: dict[str, Callable[[], Links]] = {"tree": tree_links, "graph": graph_links}


def codes_of(ontology: str) -> list[str]:
    """The codes of the events: those without a space, of the graph every seventh."""
    codes = list(dict.fromkeys(child for child, _ in LINKS[ontology]() if " " not in child))
    return codes if ontology == "tree" else codes[::7]


def flat(number: int, draw: Random, codes: Sequence[str]) -> Json:
    """A record of columns; the second code is often near the first one."""
    first = int(len(codes) * draw.random() ** 2.5)
    second = (first + draw.randrange(4)) % len(codes) if draw.random() < 0.5 else draw.randrange(len(codes))
    code = codes[first]
    return {
        "id": number,
        "patient": f"p{draw.randrange(60)}",
        "name": f'Müller "{number}"',
        "age": draw.randrange(100),
        "stay": round(draw.random() ** 3 * 60, 3),
        "diag_1": code if draw.random() < 0.9 else code.lower().replace(".", ""),
        "diag_2": codes[second],
        "note": {"free": ["text", 1, None, True, 1e-7, {"deep": "é中\n"}]},
    }


def nested(number: int, draw: Random, codes: Sequence[str]) -> Json:
    """A discharge with a principal and several secondary diagnoses, copies of them, and codings of two systems."""
    one = flat(number, draw, codes)
    others = [draw.choice(codes) for _ in range(draw.randrange(5))]
    return {
        "encounter": {"id": f"enc-{number}", "ward": draw.randrange(9)},
        "patient": {"id": one["patient"], "name": "Ada", "age": one["age"]},
        "diagnoses": {
            "principal": {"code": one["diag_1"], "display": "DISEASE", "rank": 1},
            "secondary": [{"code": code, "display": f"d {code}", "rank": k} for k, code in enumerate(others)],
        },
        "coding": [{"system": "snomed", "code": "1"}, {"system": "icd", "code": one["diag_2"]}][
            :: draw.choice((1, -1))
        ],
        "billing": {"main": one["diag_1"], "all": others},
    }


def lines(shape: Callable[[int, Random, Sequence[str]], Json], codes: Sequence[str], size: int) -> Iterator[bytes]:
    """Events as lines of JSON with more or less white space; some are malformed or have a wrong value."""
    for number in range(size):
        draw = Random(1_000_003 + number)
        event = shape(number, draw, codes)
        if number % 13 == 5:
            holder = event if shape is flat else event["diagnoses"]["principal"]
            holder[draw.choice(["diag_1", "age"] if shape is flat else ["code", "display"])] = draw.choice(WRONG)
        separators = ((",", ":"), (", ", ": "), (" ,\t", " : "))[number % 7 % 3]
        content = json.dumps(event, ensure_ascii=number % 5 == 0, separators=separators).encode()
        yield draw.choice(JUNK) if number % 29 == 11 else content
