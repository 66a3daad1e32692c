"""What a first start has to do once: parse the ontologies, and compile the kernels that the configuration uses."""

from __future__ import annotations

from stream_masker.core.mechanisms.base import Mechanism, Record, Value
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, build_taxonomies

RECORDS = 8


def warm_up(configuration: Configuration) -> Mechanism:
    """Runs every kernel of the configured mechanism once, on made-up records; what they compile to is kept on disk.

    Returns the mechanism that it made, calibrated on those records. Raises ConfigurationError like ``build_mechanism``.
    """
    mechanism = build_mechanism(configuration)
    for attribute in build_plan(configuration).attributes:
        attribute.concepts.find("no such code")
    records = [_record(configuration, k) for k in range(RECORDS)]
    mechanism.learn_many(records, time=0.0)
    mechanism.calibrate()
    mechanism.mask_many(records, keys=[bytes([k]) for k in range(RECORDS)])
    return mechanism


def _record(configuration: Configuration, k: int) -> Record:
    return {name: _value(configuration, name, k) for name in configuration.attributes}


def _value(configuration: Configuration, name: str, k: int) -> Value:
    ids = build_taxonomies(configuration)[name].ids
    concepts = [ids[(k + j) * 7919 % len(ids)] for j in range(2)]
    return concepts if "[*]" in configuration.attributes[name].path else concepts[0]
