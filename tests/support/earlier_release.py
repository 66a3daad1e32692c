"""``stream-masker`` as a release whose mechanisms have an earlier snapshot format: neither release reads the other's.

``python earlier_release.py ARGUMENTS…`` runs a command of it.
"""

from __future__ import annotations

from stream_masker.cli import main
from stream_masker.core.mechanisms.windowed import WindowedMechanism

EARLIER_FORMAT = 0
EARLIER = ("-P", __file__)
"""What the Python interpreter runs for the earlier release (``Processes.program``)."""


if __name__ == "__main__":
    WindowedMechanism.snapshot_format = EARLIER_FORMAT
    main(prog_name="stream-masker")
