"""The same events as files of every format that commands read, also compressed."""

from __future__ import annotations

import csv
import gzip
import io

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ("id", "patient", "a", "b", "name")


def json_lines(events):
    return b"".join(orjson.dumps(event) + b"\n" for event in events)


def json_array(events):
    return orjson.dumps(events, option=orjson.OPT_INDENT_2)


def csv_table(events):
    text = io.StringIO()
    rows = csv.DictWriter(text, NAMES, lineterminator="\n")
    rows.writeheader()
    rows.writerows(events)
    return text.getvalue().encode()


def parquet(events):
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(events), stream)
    return stream.getvalue()


FORMATS = {
    ".jsonl": json_lines,
    ".json": json_array,
    ".csv": csv_table,
    ".parquet": parquet,
}
"""The function that writes events, by the suffix of the format."""

COMPRESSIONS = {"": bytes, ".gz": gzip.compress}
"""The function that compresses a file, by the suffix of the compression."""
