"""The commands ``mask`` and ``calibrate`` with CSV and Parquet files."""

from __future__ import annotations

import csv
import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.file_commands import CODES, changed, event, read, run

from stream_masker.service.files.inputs import open_input

HEADER = ["id", "patient", "a", "b", "name"]


def csv_text(rows):
    return "\n".join([",".join(HEADER), *rows]) + "\n"


ROWS = [",".join(str(event(k)[name]) for name in HEADER) for k in range(120)]


def csv_rows(path):
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_a_csv_file_is_masked_as_a_csv_file_without_dropped_columns(tmp_path, config):
    source, target, rejected = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "rejected.jsonl"
    source.write_text(csv_text([*ROWS[:60], "1,2", "x,p,secret code,A1,Ada", *ROWS[60:]]))
    done = run("mask", "-c", config, "--rejected", rejected, source, target)
    assert "masked 120, rejected 2 (not_in_format at the number of cells 1, unknown_code at a 1)" in done.stderr
    assert [line["offset"] for line in read(rejected)] == [61, 62]
    assert "secret code" not in rejected.read_text()
    masked = csv_rows(target)
    assert [row["id"] for row in masked] == [str(k) for k in range(120)]
    assert set(masked[0]) == {"id", "patient", "a", "b"}
    assert all(row["a"] != event(k)["a"] and row["patient"] != event(k)["patient"] for k, row in enumerate(masked))


def parquet(path):
    """A table with types that JSON lacks, a missing value, and a list."""
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(k) for k in range(60)]
    table = pa.table(
        {
            "id": pa.array([None, *days[1:]], pa.date32()),
            "patient": pa.array(range(60)),
            "a": pa.array([CODES[k % 8] for k in range(60)]).dictionary_encode(),
            "b": pa.array([[CODES[k % 8], CODES[k * 3 % 8]] for k in range(60)]),
            "name": ["Ada"] * 60,
        }
    )
    pq.write_table(table, path)
    return table


def test_a_parquet_file_keeps_the_types_of_kept_columns(tmp_path, config):
    with changed(config) as content:
        content["attributes"]["b"]["path"] = "b[*]"
    before = parquet(tmp_path / "in.parquet")
    run("mask", "-c", config, tmp_path / "in.parquet", tmp_path / "out.parquet")
    after = pq.read_table(tmp_path / "out.parquet")
    assert after.schema.names == ["id", "patient", "a", "b"]
    assert after["id"].to_pylist() == before["id"].to_pylist()
    assert after["patient"].type == pa.string()
    assert after["a"].type == pa.string()
    assert after["b"].type == before["b"].type
    assert [len(codes) for codes in after["b"].to_pylist()] == [2] * 60
    assert all(a != b for a, b in zip(after["a"].to_pylist(), before["a"].to_pylist(), strict=True))


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_without_a_suffix_is_masked_with_its_delimiter(tmp_path, config, packed, delimiter):
    (tmp_path / "table").write_text(csv_text(ROWS).replace(",", delimiter))
    run("mask", "-c", config, tmp_path / "table", tmp_path / f"out.csv{packed}")
    run("mask", "-c", config, tmp_path / "table", tmp_path / "out.jsonl")
    with open_input(str(tmp_path / f"out.csv{packed}")) as file:
        rows = list(csv.DictReader(file.stream.read().decode().splitlines(), delimiter=delimiter))
    assert rows == read(tmp_path / "out.jsonl")
    assert list(rows[0]) == ["id", "patient", "a", "b"]
    assert rows[-1]["id"] == "119"


def test_calibrate_reads_tables(tmp_path, config):
    (tmp_path / "in.csv").write_text(csv_text(ROWS))
    done = run("calibrate", "-c", config, tmp_path / "in.csv")
    assert '"records":50' in done.stdout.replace(" ", "")


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("in.jsonl", "out.csv", "a table is written from a table of the same kind"),
        ("in.csv", "out.parquet", "a table is written from a table of the same kind"),
        ("bad.parquet", "out.parquet", "is no file of events that can be read"),
        ("torn.parquet", "out.parquet", "cannot be read as Parquet"),
        ("none.parquet", "out.parquet", "none.parquet cannot be read: No such file"),
    ],
)
def test_errors(tmp_path, config, source, target, message):
    (tmp_path / "in.csv").write_text(csv_text(ROWS))
    (tmp_path / "bad.parquet").write_text("no table")
    (tmp_path / "torn.parquet").write_text("PAR1, but no more")
    (tmp_path / "in.jsonl").write_text(
        "".join(f'{{"a":"{CODES[k % 8]}","b":"{CODES[k * 3 % 8]}"}}\n' for k in range(40))
    )
    assert message in run("mask", "-c", config, tmp_path / source, tmp_path / target, code=1).output
