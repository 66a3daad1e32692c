"""``python -m stream_masker``: the command line."""

from stream_masker.cli import main

main(prog_name="stream-masker")
