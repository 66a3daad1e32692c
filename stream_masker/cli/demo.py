"""``stream-masker demo``: all processes of the service, for a trial."""

from __future__ import annotations

import logging

import click

from stream_masker.cli.options import ReportingCommand, information, is_given, output, tell


@click.command(cls=ReportingCommand)
@click.option("--records", type=click.IntRange(1_000), default=20_000, show_default=True, help="Events to generate.")
def demo(records: int) -> None:
    """Mask generated discharges, and detect an outbreak of influenza among them.

    Runs the same processes as a real deployment, a worker and a calibrator, on a broker in memory. Halfway through, the
    outbreak begins. All events are synthetic, so one of them is shown before and after masking.

    \b
    Examples:
      stream-masker demo
    """
    tell(f"loading the service, to mask {records:,} synthetic events")
    from stream_masker.service.demo.processes import started

    logging.getLogger().setLevel(logging.ERROR)
    to_standard_output = not (is_given("quiet") or is_given("as_json"))
    with started(records) as processes:
        # Imported while the worker starts, which takes as long.
        from rich.console import Console

        from stream_masker.service.demo.run import run_demo

        console = Console(file=None if to_standard_output else information())
        text, figures = run_demo(console, processes, records=records)
    output(text, figures)
