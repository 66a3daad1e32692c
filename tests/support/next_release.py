"""``stream-masker`` as the next release: its mechanisms have another snapshot format, and read that of this one, too.

``python next_release.py ARGUMENTS…`` runs a command of it.
"""

from __future__ import annotations

from stream_masker.cli import main
from stream_masker.core.mechanisms.windowed import WindowedMechanism

NEXT = ("-P", __file__)
"""What the Python interpreter runs for the next release (``Processes.program``)."""


def next_format() -> int:
    """Return the snapshot format of mechanisms that have no format of their own."""
    return WindowedMechanism.snapshot_format + 1


if __name__ == "__main__":
    WindowedMechanism.earlier_formats = (WindowedMechanism.snapshot_format,)
    WindowedMechanism.snapshot_format = next_format()
    main(prog_name="stream-masker")
