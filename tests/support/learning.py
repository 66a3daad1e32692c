"""Mechanisms with the statistics of records in force."""

from __future__ import annotations

from typing import Any

from stream_masker.core.mechanisms import Mechanism


def trained(made: Mechanism, records: Any, **keys: Any) -> Mechanism:
    """Return a mechanism that has learned records and is calibrated."""
    made.learn_many(records, **keys)
    made.calibrate()
    return made
