"""The offsets of the group are gone: a worker masks nothing again without an explicit choice."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient
from kafka_records import QUIET
from workers import Running, Setting, ids, producer_of, running

from stream_masker.errors import ServiceError
from stream_masker.service.kafka.names import consumer_group_id


@pytest.fixture
def here(here: Setting) -> Setting:
    here.create(2)
    here.publish(1)
    return here


def forget_offsets(here: Setting) -> None:
    """Delete the group, as Kafka does when it has been empty for some days."""
    admin = AdminClient({"bootstrap.servers": here.bootstrap, **QUIET})
    for future in admin.delete_consumer_groups([consumer_group_id(here.configuration())]).values():
        future.result(60)


def mask_once(here: Setting) -> None:
    here.produce(range(20), partitions=2)
    with running(here.configuration()) as worker:
        worker.reaches(20)
    forget_offsets(here)


def test_a_worker_refuses_to_mask_the_input_again(here: Setting) -> None:
    mask_once(here)
    worker = Running(here.configuration())
    worker.thread.start()
    worker.thread.join(60)
    assert isinstance(worker.failure, ServiceError)
    assert f"has no offsets of {here.topics['input']}, partitions 0, 1, but " in str(worker.failure)
    assert sorted(ids(here.read("output"))) == list(range(20))


@pytest.mark.parametrize(("choice", "masked"), [("earliest", [*range(20), *range(20)]), ("latest", [*range(20)])])
def test_an_explicit_choice_masks_the_input_again_or_only_new_records(
    here: Setting, choice: str, masked: list[int]
) -> None:
    mask_once(here)
    here.data["kafka"]["properties"]["auto.offset.reset"] = choice
    with running(here.configuration()) as worker:
        worker.wait(lambda: worker.metric("assigned_partitions") == 2, "the partitions")
        worker.wait(lambda: worker.metric("consumer_lag_assigned") == 0, "the end of the input")
        worker.wait(lambda: here.ended() == len(masked), "the records")
        here.produce(range(20, 22), partitions=2)
        worker.wait(lambda: here.ended() == len(masked) + 2, "new records")
    assert sorted(ids(here.read("output"))) == sorted([*masked, 20, 21])


def test_an_output_that_has_only_aborted_records_is_empty(here: Setting) -> None:
    """A worker that is killed in its first transaction leaves such an output, and no offsets."""
    here.produce(range(20), partitions=2)
    producer = producer_of(here)
    assert producer.begin(lambda send: send(here.topics["output"], 0, [(b"{}", None, 0, [])])) is None
    producer._client.flush(30)
    producer.close()
    with running(here.configuration()) as worker:
        worker.reaches(20)
    assert sorted(ids(here.read("output"))) == list(range(20))
