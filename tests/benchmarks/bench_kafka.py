"""Records per second through a real Kafka: a plain copy and the mask worker, on the same topic with the same client.

Run by hand: ``python tests/benchmarks/bench_kafka.py [--shape nested|flat] [--records 500000] [--batch 10000]``.

Starts a broker, writes synthetic discharges to four partitions, and runs each contender, a single process, over all of
them in transactions of the same size. The copy runs with the worker's settings, with the three headers that a masked
record has, and with the client's long default pause between fetches when its queue is full. A contender's rate is
measured from its first committed records to its last, and its processor time, without that of the brokers, until nine
tenths of them. Prints a Markdown table of rates, of their ratios to the copy's, and of processor times. For other
programs, see ``bench_peers.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator

from measuring import SCRIPTS, table
from streaming import HEADERS, Measured, Stream, broker, stream_arguments

from stream_masker.service.kafka.clients import BOUNDS

CLIENT_S_OWN_MS = 1_000
LOOP = (sys.executable, str(SCRIPTS / "loop_stream.py"))
HEAD = ("", "records/s", "of the copy's", "processor, µs a record")
OUR_PAUSE_MS = BOUNDS["fetch.queue.backoff.ms"]
COPIES: dict[str, dict[str, object]] = {
    "copy": {},
    "copy with three headers": {"headers": HEADERS},
    "copy with the client's default fetch.queue.backoff.ms": {"pause": CLIENT_S_OWN_MS},
}
"""The settings of the copies by name."""


def main() -> None:
    options = stream_arguments(__doc__)
    with broker() as (folder, cluster):
        stream = Stream.prepared(folder, cluster.bootstrap, options)
        if options.records <= (window := stream.configuration.calibration.window_records):
            sys.exit(f"--records is {options.records}; use more than the {window} of the window, which must overflow")
        size = stream.fill(options.records)
        stream.calibrate()
        title = f"{options.records:,} events of {size:.0f} bytes, transactions of {options.batch:,} records"
        table(title, HEAD, compared(contest(stream, options)))


def contest(stream: Stream, options: argparse.Namespace) -> Iterator[tuple[str, Measured]]:
    """Yield the rates of each contender."""
    records = options.records
    for name, settings in COPIES.items():
        yield name, stream.copied(LOOP, options.batch, records, copies=True, **{"pause": OUR_PAUSE_MS, **settings})
    yield "worker", stream.masked(records)


def compared(rates: Iterable[tuple[str, Measured]]) -> Iterator[tuple[str | float, ...]]:
    """Yield the rows of the table; the first contender is the copy."""
    copied = None
    for name, (rate, processor) in rates:
        copied = copied or rate
        yield name, rate, rate / copied, processor


if __name__ == "__main__":
    main()
