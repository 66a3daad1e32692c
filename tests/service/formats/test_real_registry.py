"""The Confluent wire format with a real schema registry: Apicurio Registry, from Maven Central, in memory."""

from __future__ import annotations

import os
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

pytest.importorskip("confluent_kafka.schema_registry.avro", reason="pip install '.[registry]'")

from confluent_kafka.schema_registry import SchemaRegistryClient
from kafka_broker import KafkaUnavailableError, cache_folder, find
from schema_registry import AVRO_EVENT, JSON_EVENT, avro_values, json_values

from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.formats.wire_format import ConfluentFormat, SchemaLookup

pytestmark = pytest.mark.scheduled

VERSION = "2.5.11.Final"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
PORT = 18_081
EVENT = {"id": 7, "patient": {"id": "p7"}, "first": "C00", "second": "C11"}


def installed() -> Path:
    """The folder of the registry in the user's cache; Maven downloads it on first use."""
    target = cache_folder() / f"apicurio-registry-{VERSION}"
    if not target.is_dir():
        unpacked = target.with_suffix(".new")
        subprocess.run(
            [find("mvn"), "-q", "-B", COPY, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={unpacked}"],
            check=True,
            timeout=300,
        )
        [archive] = unpacked.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        archive.unlink()
        unpacked.rename(target)
    return target


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the registry's API for Confluent's clients."""
    if os.environ.get("STREAM_MASKER_TEST_REGISTRY"):
        yield os.environ["STREAM_MASKER_TEST_REGISTRY"]
        return
    try:
        [jar] = installed().glob("*-runner.jar")
        java = find("java")
    except (KafkaUnavailableError, subprocess.SubprocessError) as error:
        pytest.skip(f"no Apicurio Registry: {type(error).__name__}: {error}")
    url = f"http://127.0.0.1:{PORT}/apis/ccompat/v7"
    with (tmp_path_factory.mktemp("registry") / "log").open("wb") as log:
        options = ["-Xmx300m", f"-Dquarkus.http.port={PORT}", "-Dquarkus.http.host=127.0.0.1"]
        process = subprocess.Popen([java, *options, "-jar", str(jar)], stdout=log, stderr=subprocess.STDOUT)
        try:
            await_answer(f"{url}/subjects", process)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def await_answer(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, "the registry has ended"
            assert time.monotonic() < deadline, "the registry does not answer"
            time.sleep(0.5)


@pytest.mark.parametrize(("write", "schema"), [(avro_values, AVRO_EVENT), (json_values, JSON_EVENT)])
def test_records_are_decoded_and_written_with_the_registrys_schemas(registry, write, schema):
    client = SchemaRegistryClient({"url": registry})
    topic = f"in-{write.__name__}-{time.time_ns()}"
    (value,) = write(client, topic, schema, [EVENT])
    document, encode = ConfluentFormat(SchemaLookup(SchemaRegistryClient({"url": registry}), registry)).decode(value)
    found = orjson.loads(document) if isinstance(document, bytes) else document
    assert {name: found[name] for name in EVENT} == EVENT
    assert encode(found) == value


def test_an_unknown_id_is_rejected(registry):
    wire = ConfluentFormat(SchemaLookup(SchemaRegistryClient({"url": registry}), registry))
    with pytest.raises(RecordRejectedError, match="unknown_schema"):
        wire.decode(b"\x00\x00\x0f\xff\xff12")
