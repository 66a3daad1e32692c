"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path

import click

config_option = click.option(
    "-c",
    "--config",
    "config",
    type=click.Path(path_type=Path),
    default=Path("stream-masker.yaml"),
    envvar="STREAM_MASKER_CONFIG",
    show_default=True,
    show_envvar=True,
    metavar="FILE",
    help="Configuration file (YAML).",
)
"""``--config FILE``: a ``Path`` named ``config``."""
