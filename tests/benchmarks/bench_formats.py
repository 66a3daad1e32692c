"""Masking of events in each format, by the command ``mask``: the processor time of a record, in µs.

``python tests/benchmarks/bench_formats.py [--before FOLDER] [--records 50000]``. The events are those of ``examples``,
repeated. The time of a short file is taken from that of a long one, so that a start, a compilation and the calibration
do not count. FOLDER has an earlier version of the repository, which masks the same events by its own configuration
beside this version.
"""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
import tempfile
from pathlib import Path

from measuring import COMMAND, ROOT, arguments, table

FILES = {"nested": "jsonl", "fhir": "jsonl", "fhir-bundle": "jsonl", "hl7v2": "hl7"}
"""The example of each format, and the end of the names of its files."""

WINDOW = 2_000
"""The events of which a run takes its statistics, and those of a short file."""

REPEATS = 3


def main() -> None:
    options = arguments(__doc__, {"--before": "", "--records": 50_000})
    versions = [ROOT, *map(Path, filter(None, [options.before]))]
    head = ("events", "µs a record", "before", "before / now")[: 2 * len(versions)]
    table("Masking of files", head, (row(name, versions, options.records) for name in FILES))


def row(name: str, versions: list[Path], records: int) -> list[str | float]:
    """Return the figures of a format: its example's name, the costs by version, and their ratio if there are two."""
    packed = gzip.decompress((ROOT / "examples" / name / f"events.{FILES[name]}.gz").read_bytes())
    events = packed.count(b"MSH|" if FILES[name] == "hl7" else b"\n")
    with tempfile.TemporaryDirectory() as folder:
        sizes = [-(-size // events) for size in (WINDOW, WINDOW + records)]
        short, long = (Path(folder, f"{size}.{FILES[name]}") for size in sizes)
        for file, size in zip((short, long), sizes, strict=True):
            file.write_bytes(packed * size)
        costs = []
        for version in versions:
            masked(version, name, short)
            less, more = (min(masked(version, name, file) for _ in range(REPEATS)) for file in (short, long))
            costs.append(1e6 * (more - less) / (events * (sizes[1] - sizes[0])))
    return [name, *costs, *([costs[1] / costs[0]] if costs[1:] else [])]


def masked(version: Path, name: str, source: Path) -> float:
    """Return the processor time of masking a file, in seconds."""
    configuration = str(version / "examples" / name / "stream-masker.yaml")
    command = [*COMMAND, "mask", "--quiet", "--config", configuration, str(source), str(source.with_stem("masked"))]
    given = {"PYTHONPATH": str(version), "STREAM_MASKER__CALIBRATION__WINDOW_RECORDS": str(WINDOW)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=os.environ | given, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
