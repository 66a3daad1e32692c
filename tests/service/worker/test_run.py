"""The properties of a worker's clients, the names that it uses, and what it imports."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.kafka import clients


def with_properties(**properties: object) -> Configuration:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return parse_configuration(small_configuration("a", kafka={"properties": given}))


def test_only_properties_that_exactly_once_does_not_depend_on_can_be_configured() -> None:
    refused = {"enable_idempotence": False, "partition_assignment_strategy": "range"}
    given = with_properties(**refused, compression_type="zstd", linger_ms=50)
    consumer, producer = clients.input_properties(given), clients.output_properties(given, "group.one")
    assert consumer["auto.offset.reset"] == "error"
    assert consumer["partition.assignment.strategy"] == "cooperative-sticky"
    assert (producer["enable.idempotence"], producer["transactional.id"]) == (True, "group.one")
    assert (producer["compression.type"], producer["linger.ms"]) == ("zstd", 50)
    with pytest.raises(ConfigurationError, match=r"auto\.offset\.reset: cannot be set: .*--reset-offsets"):
        with_properties(auto_offset_reset="latest")


def test_workers_of_one_input_share_a_group_and_have_their_own_transactional_ids() -> None:
    unnamed, named = with_properties(), parse_configuration(small_configuration("a", worker={"instance": "pod-3"}))
    assert clients.consumer_group_id(unnamed) == "stream-masker.discharges"
    assert clients.consumer_group_id(with_properties(group_id="mine")) == "mine"
    assert clients.transactional_id(named) == "stream-masker.discharges.pod-3"
    assert clients.transactional_id(unnamed).startswith("stream-masker.discharges.")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_accepts_the_properties(protocol: str) -> None:
    given = with_properties(group_protocol=protocol)
    assert ("partition.assignment.strategy" in clients.input_properties(given)) is (protocol == "classic")
    clients.connect_consumer(clients.input_properties(given)).close()
    clients.connect_producer(clients.output_properties(given, "group.one"))


def test_a_worker_imports_no_unused_libraries() -> None:
    """So it starts within seconds."""
    code = "import sys, stream_masker.cli.processes, stream_masker.service.worker.run; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {"stream_masker.cli.processes", "stream_masker.service.worker.run"} <= set(imported)
    assert not {"kafka", "networkx", "faust", "simple_icd_10_cm", "rich", "dcor"} & set(imported)


@pytest.mark.parametrize("refused", [{"compression_type": "no-such-codec"}, {"acks": 1}])
def test_properties_that_librdkafka_refuses_are_configuration_errors(refused: dict[str, object]) -> None:
    """``config check`` names those that it does not know."""
    with pytest.raises(ConfigurationError, match=r"kafka\.properties cannot be used: "):
        clients.connect_producer(clients.output_properties(with_properties(**refused), "id"))
