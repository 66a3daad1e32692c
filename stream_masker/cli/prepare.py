"""``stream-masker prepare``: compilation before the first start."""

from __future__ import annotations

import time
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, summarise, tell
from stream_masker.core.cache_folder import cache_folder


@click.command(cls=ReportingCommand)
@config_option
def command(config: Path) -> None:
    """Parse the ontologies and compile the kernels of a configuration, so that workers start in seconds.

    Run it when an image is built. Ontologies are kept in $STREAM_MASKER_CACHE (default: stream-masker in
    $XDG_CACHE_HOME or ~/.cache), kernels in $NUMBA_CACHE_DIR (default: beside the installed modules).

    \b
    Example:
      stream-masker prepare --config discharges.yaml
    """
    tell("loading the service")
    warm_up_with_progress(config)


def warm_up_with_progress(config: Path) -> None:
    """Import the service, which takes longer than the rest of the start, and warm up."""
    from stream_masker.service.configuration import load_configuration
    from stream_masker.service.runtime.warmup import warm_up

    start = time.perf_counter()
    ready = warm_up(load_configuration(config))
    seconds = time.perf_counter() - start
    summarise(
        f"{ready.name} over {', '.join(ready.attributes)} is ready, in {seconds:.1f} s ({cache_folder()})",
        {
            "mechanism": ready.name,
            "attributes": list(ready.attributes),
            "seconds": round(seconds, 1),
            "cache": str(cache_folder()),
        },
    )
