"""Reading of events from CSV files and JSON lines, to mask or publish them."""

from __future__ import annotations

import gzip
from pathlib import Path

import orjson
import pytest

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.pipeline.paths import compile_path
from stream_masker.service.configuration.masking import ProduceSection
from stream_masker.service.events.publishing import Event, file_events, key_getter
from stream_masker.service.files.events import open_events

SECRET = "E11.9-very-private"


def read(file: Path, content: bytes, **settings: object) -> list[Event]:
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
    section = ProduceSection(**settings)
    with open_events(str(file), section) as source:
        return list(file_events(source.lines, section.key))


def values(lines: list[Event]) -> list[object]:
    return [orjson.loads(line.value) for line in lines if not line.problem]


def malformed(lines: list[Event]) -> list[tuple[int, str]]:
    return [(line.number, line.problem) for line in lines if line.problem]


def test_unmapped_columns_become_text_fields(tmp_path: Path) -> None:
    assert values(read(tmp_path / "a.csv", b"id,a.b\n01,x\n")) == [{"id": "01", "a.b": "x"}]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_rows_have_numbers_lists_and_no_missing_cells(tmp_path: Path, name: str) -> None:
    lines = read(
        tmp_path / name,
        "id,age,stay,dx,more\r\n7,61,2.5,038,?\r\n8,?,,\u00e9,a; b ;\r\n".encode(),
        null_values=["?", ""],
        numbers=["age", "stay"],
        lists={"more": "; "},
        key="id",
    )
    assert values(lines) == [
        {"id": "7", "age": 61, "stay": 2.5, "dx": "038"},
        {"id": "8", "dx": "\u00e9", "more": ["a", "b"]},
    ]
    assert [line.key for line in lines] == [b"7", b"8"]


def test_quoted_cells_can_contain_commas_and_line_breaks(tmp_path: Path) -> None:
    assert values(read(tmp_path / "a.csv", b'a,b\n"x, y","1\n2"\n')) == [{"a": "x, y", "b": "1\n2"}]


def test_malformed_rows_are_reported_without_content(tmp_path: Path) -> None:
    content = f'a,n\nok,1\n{SECRET}\n{SECRET},1,2\n{SECRET},{SECRET}\n"{SECRET}"x,1\n\nok,2\n'.encode()
    lines = read(tmp_path / "a.csv", content, numbers=["n"])
    assert values(lines) == [{"a": "ok", "n": 1}, {"a": "ok", "n": 2}]
    cells = "not_in_format at the number of cells"
    assert malformed(lines) == [(2, cells), (3, cells), (4, "not_a_number at n"), (5, cells)]


@pytest.mark.parametrize("number", ["nan", "inf", "1e999", "12x", "9" * 30])
def test_numbers_that_json_cannot_represent_are_malformed(tmp_path: Path, number: str) -> None:
    assert malformed(read(tmp_path / "a.csv", f"n\n{number}\n".encode(), numbers=["n"]))[0][0] == 1


def test_json_lines_are_unchanged(tmp_path: Path) -> None:
    lines = read(tmp_path / "a.jsonl", b'{"b": 1.0,  "a": {"id": 5}}\n\n{"a": {}, "a": {"id": "x"}}\r\n', key="a.id")
    assert [line[1:3] for line in lines] == [
        (b'{"b": 1.0,  "a": {"id": 5}}', b"5"),
        (b'{"a": {}, "a": {"id": "x"}}', b"x"),
    ]


def test_malformed_json_lines_are_reported(tmp_path: Path) -> None:
    content = b'{"a": 1}\n{"a": \n[1]\n"text"\n{"a": "\xff"}\n{"a": 2}\n'
    lines = read(tmp_path / "a.jsonl.gz", content)
    assert values(lines) == [{"a": 1}, {"a": 2}]
    assert [number for number, _ in malformed(lines)] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("event", "key"),
    [
        ({"a": [{"b": "k"}]}, b"k"),
        ({"a": [{"b": 7}]}, b"7"),
        ({"a": [{"b": None}]}, None),
        ({"a": []}, None),
        ({}, None),
    ],
)
def test_key_is_read_at_its_path(event: object, key: bytes | None) -> None:
    assert key_getter(compile_path("a[0].b"))(event) == key


def test_key_path_must_select_one_value() -> None:
    with pytest.raises(ConfigurationError, match="selects several values"):
        key_getter(compile_path("a[*].b"))


@pytest.mark.parametrize("setting", [{"lists": {"b": ";"}}, {"numbers": ["b"]}])
def test_missing_columns_are_named(tmp_path: Path, setting: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="'b'"):
        read(tmp_path / "a.csv", f"{SECRET}\n1\n".encode(), **setting)


@pytest.mark.parametrize("content", [b"", f"{SECRET},{SECRET}\n".encode()])
def test_file_without_a_header_is_refused_without_its_content(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ServiceError) as caught:
        read(tmp_path / "a.csv", content)
    assert SECRET not in str(caught.value)


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="No such file"), open_events(str(tmp_path / "a.csv"), ProduceSection()):
        pass


def test_the_share_that_is_read_reaches_1(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"a\n" + b"1\n" * 20_000))
    with open_events(str(file), ProduceSection()) as source:
        assert source.file.share_read <= 1
        assert len(list(source.lines)) == 20_000
        assert source.file.share_read == 1
