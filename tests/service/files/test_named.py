"""The files that a configuration names."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_masker.errors import StreamMaskerError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_plan
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.secret import (
    read_http_token,
    read_registry_secret,
    read_secret,
    read_topic_secrets,
)
from stream_masker.service.files.named import named_files
from stream_masker.service.formats.registry import client_properties

CONTENT = {
    "kafka": {"properties": {"ssl.ca.location": "ca.pem", "client.id": "a"}},
    "ontologies": {"one": {"source": "one.csv"}, "icd": {"source": "icd10cm"}},
    "attributes": {"a": {"path": "a", "ontology": "one", "mapping": "mapping.csv"}},
    "fields": {"unlisted": "drop"},
    "noise_key": "position",
    "secret": {"file": "secret"},
    "internal_topics": {"secret": {"file": "topics"}, "previous_secrets": [{"file": "earlier"}, {"env": "OLD"}]},
    "http": {"token": {"file": "token"}, "tls": {"certificate": "http.crt", "key": "http.key"}},
    "format": {
        "value": "confluent",
        "registry": {
            "credentials": {"file": "credentials"},
            "ca": "registry.ca",
            "certificate": "registry.crt",
            "certificate_key": "registry.key",
        },
    },
}
NAMES = {
    *("one.csv", "mapping.csv", "secret", "topics", "earlier", "token", "http.crt", "http.key"),
    *("credentials", "registry.ca", "registry.crt", "registry.key"),
}


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    return parse_configuration(CONTENT, folder=tmp_path)


def test_every_file_is_named_with_its_place(
    configuration: Configuration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").touch()
    found = named_files(configuration)
    assert {Path(path).name for path in found.values()} == NAMES | {"ca.pem"}
    assert found["internal_topics.previous_secrets.0.file"] == str(tmp_path / "earlier")
    assert found["kafka.properties.ssl.ca.location"] == "ca.pem"


def test_every_file_that_is_read_is_named(configuration: Configuration, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers resolve each name, whether the file exists or not."""
    read, resolve = set(), Configuration.resolve

    def recorded(self: Configuration, name: str) -> Path:
        read.add(name)
        return resolve(self, name)

    monkeypatch.setattr(Configuration, "resolve", recorded)
    section, http = configuration.format.registry, configuration.http
    for reader in (
        lambda: build_plan(configuration),
        lambda: read_secret(configuration, {}),
        lambda: read_topic_secrets(configuration, {}),
        lambda: read_registry_secret(configuration, section.credentials, "credentials", {}),
        lambda: read_http_token(configuration, http.token, {}),
        lambda: client_properties(configuration),
    ):
        with pytest.raises(StreamMaskerError):
            reader()
    assert {"one.csv", "secret", "topics", "credentials", "token"} <= read
    assert read <= NAMES
