"""``stream-masker worker``: the mask worker."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from stream_masker.cli.options import config_option
from stream_masker.errors import StreamMaskerError
from stream_masker.service.configuration import load_configuration
from stream_masker.service.gc_tuning import infrequent_collections
from stream_masker.service.observability.logs import LOG_LEVELS, configure_logs
from stream_masker.service.shutdown import exit_within

log = logging.getLogger(__name__)


@click.command()
@config_option
@click.option(
    "--http-port",
    type=click.IntRange(0, 65_535),
    help="Instead of http.port, for several workers on one machine; 0 takes any free port and logs it.",
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True, help="What to log.")
def command(config: Path, http_port: int | None, log_level: str) -> None:
    """Mask the input topic, record by record, until told to stop (SIGTERM, SIGINT).

    Masked records, rejections, calibration counts and offsets of a batch are written in one transaction. With no
    statistics the worker holds, and /readyz says why. Run as many as the input has partitions; each needs a
    transactional id of its own, which worker.instance names.

    A broker that does not answer is waited for; missing topics end the worker with exit code 1, a configuration
    that cannot be used with 2. Told to stop it ends within 25 seconds: in order with 0, or at once with 1.

    \b
    Examples:
      stream-masker worker --config discharges.yaml
      stream-masker worker --config discharges.yaml --http-port 0 --log-level debug
    """
    from prometheus_client import CollectorRegistry

    from stream_masker.service.observability.health import Health, HttpServer
    from stream_masker.service.worker.run import run_worker

    configure_logs(log_level)
    configuration = load_configuration(config)
    http, registry, health, stop = configuration.http, CollectorRegistry(), Health(), threading.Event()
    stop_on_signals(stop)
    port = http.port if http_port is None else http_port
    server = HttpServer(host=http.host, port=port, health=health, registry=registry)
    with server, unforeseen_logged(), infrequent_collections(configuration.worker.batch_records):
        run_worker(configuration, registry=registry, health=health, stop=stop)


@contextmanager
def unforeseen_logged() -> Iterator[None]:
    """Ends the process with 1 on an unforeseen exception, and logs it without its text, which may quote a record."""
    try:
        yield
    except StreamMaskerError:
        raise
    except Exception as error:
        log.critical("the worker failed", exc_info=error)
        raise SystemExit(1) from None


def stop_on_signals(stop: threading.Event) -> None:
    """SIGTERM and SIGINT set ``stop``, and the process ends soon whatever hangs; a second one ends it at once."""

    def handle(number: int, _: FrameType | None) -> None:
        log.info("%s: stopping", signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)
        exit_within()
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
