"""``stream-masker reveal``: decryption of encrypted fields."""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, summarise
from stream_masker.errors import ServiceError
from stream_masker.pipeline.transforms import Revealer
from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.secret import read_encryption_secret
from stream_masker.service.files.inputs import open_input, read_errors
from stream_masker.service.files.named import named_files
from stream_masker.service.files.outputs import STANDARD_STREAM, open_output, refuse_same_file


@click.command(cls=ReportingCommand)
@config_option
@click.option(
    "--previous-secret",
    "previous",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="File with an earlier encryption secret, for values that were encrypted before it changed; repeatable.",
)
@click.argument("source", default=STANDARD_STREAM, metavar="[IN]")
@click.argument("target", default=STANDARD_STREAM, metavar="[OUT]")
def command(config: Path, previous: tuple[Path, ...], source: str, target: str) -> None:
    """Decrypt the fields of masked events that fields.encrypt names, from IN to OUT.

    Needs the secret of encryption_secret, and nothing else of the configuration: not the secret of noise and
    pseudonyms. IN is JSON or any text with encrypted values in double quotes; everything else is copied. A value of
    another key stays encrypted, and the exit code is then 1.

    \b
    Examples:
      stream-masker reveal --config discharges.yaml masked.jsonl revealed.jsonl
      stream-masker reveal -c discharges.yaml --previous-secret old-secret < masked.jsonl
    """
    configuration = load_configuration(config)
    secrets = {f"--previous-secret {number}": str(path) for number, path in enumerate(previous, start=1)}
    read = {"IN": source, "--config": str(config), **secrets, **named_files(configuration)}
    refuse_same_file(read, {"OUT": target})
    revealer = Revealer([read_encryption_secret(configuration), *map(_read, previous)])
    with open_input(source) as file, open_output(target) as output, read_errors(file.name):
        if file.kind in ("parquet", "avro", "protobuf"):
            raise ServiceError(f"{file.name} is not a text: mask to a .jsonl or .csv file to reveal its fields")
        for line in file.stream:
            output.write(revealer.line(line))
    figures = {"revealed": revealer.revealed, "unrevealed": revealer.unrevealed}
    summarise(f"revealed {revealer.revealed:,} values", figures, beside=target)
    if revealer.unrevealed:
        raise ServiceError(f"{revealer.unrevealed:,} values are encrypted with another secret: use --previous-secret")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().removesuffix(b"\n").removesuffix(b"\r")
    except OSError as error:
        raise ServiceError(f"{path} cannot be read: {error.strerror}") from None
