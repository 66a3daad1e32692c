"""The options of the demonstration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of the demonstration.

    records: number of events to generate; rate: events per second, 0 for full speed; seed: of the generated events;
    bootstrap_servers: a Kafka cluster, empty for the embedded broker; port: of the calibrator's
    /metrics (the worker uses the next one); mechanism: its name, with the default parameters.
    """

    records: int = 20_000
    rate: float = 5_000.0
    seed: int = 1
    bootstrap_servers: str = ""
    port: int = 9464
    mechanism: str = "semantic_noise"
