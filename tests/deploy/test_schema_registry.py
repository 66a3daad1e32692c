"""The chart with records in the Confluent wire format: the login of the schema registry, and the way to it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from rendered_chart import NEEDS_HELM, Objects, rendered

from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.formats.registry import client_properties

pytestmark = NEEDS_HELM

COMPONENTS = ("worker", "calibrator")
LOGIN = {"existingSecret": "registry", "key": "login"}


def wire_format(url: str | None = None, **registry: str) -> dict[str, object]:
    return {"format": {"value": "confluent", "registry": {**registry, **({"url": url} if url else {})}}}


def loaded(objects: Objects, component: str, folder: Path) -> tuple[Configuration, dict[str, str]]:
    """The configuration as a component reads it, and the mounted Secrets by path."""
    pod = objects["Deployment", f"release-stream-masker-{component}"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    file = folder / "stream-masker.yaml"
    file.write_text(objects["ConfigMap", "release-stream-masker"]["data"]["stream-masker.yaml"])
    variables = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    secrets = {one["name"]: one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    mounts = {mount["mountPath"]: secrets.get(mount["name"], "") for mount in container["volumeMounts"]}
    return load_configuration(file, variables), mounts


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("login", ["credentials", "token"])
def test_login_comes_from_an_existing_secret(component: str, login: str, tmp_path: Path) -> None:
    values = {"configuration": wire_format("https://registry.example"), "schemaRegistry": {**LOGIN, "login": login}}
    configuration, mounts = loaded(rendered(values), component, tmp_path)
    source = getattr(configuration.format.registry, login)
    assert source.file == "/run/secrets/registry/secret"
    assert mounts["/run/secrets/registry"] == "registry"
    other = {"credentials": "token", "token": "credentials"}[login]
    assert getattr(configuration.format.registry, other) is None


def test_key_of_the_secret_is_the_file_that_processes_read() -> None:
    objects = rendered({"configuration": wire_format(), "schemaRegistry": LOGIN})
    for component in COMPONENTS:
        volumes = objects["Deployment", f"release-stream-masker-{component}"]["spec"]["template"]["spec"]["volumes"]
        (secret,) = (one["secret"] for one in volumes if one["name"] == "secret-registry")
        assert secret["items"] == [{"key": "login", "path": "secret"}]
        assert secret["defaultMode"] == 0o440


def test_certificates_are_mounted_where_the_configuration_names_them(tmp_path: Path) -> None:
    folder = "/etc/stream-masker/registry"
    configuration = wire_format("https://registry.example", ca=f"{folder}/ca.crt", certificate=f"{folder}/tls.crt")
    objects = rendered({"configuration": configuration, "schemaRegistry": {"certificates": "registry-tls"}})
    read, mounts = loaded(objects, "worker", tmp_path)
    assert mounts[folder] == "registry-tls"
    properties = client_properties(read)
    assert properties["ssl.ca.location"] == f"{folder}/ca.crt"
    assert properties["ssl.certificate.location"] == f"{folder}/tls.crt"


def ports_beside_kafka(values: object) -> list[int]:
    egress = rendered(values)["NetworkPolicy", "release-stream-masker"]["spec"]["egress"]
    return [port["port"] for rule in egress for port in rule["ports"] if port["port"] not in (53, 9092)]


@pytest.mark.parametrize(
    ("url", "ports"),
    [
        (None, [8081]),
        ("https://registry.example", [443]),
        ("http://registry.example/apis/ccompat/v7", [80]),
        ("https://registry.example:8443/apis/ccompat/v7", [8443]),
        ("http://one.example:8081,http://two.example:8081,https://[2001:db8::1]:9443", [8081, 9443]),
        ("https://[2001:db8::1]", [443]),
    ],
)
def test_the_network_policy_opens_the_ports_of_the_registry(url: str | None, ports: list[int]) -> None:
    assert ports_beside_kafka({"configuration": wire_format(url)}) == ports


def test_no_port_is_opened_without_the_wire_format() -> None:
    assert ports_beside_kafka({}) == []
    assert ports_beside_kafka({"configuration": {"format": {"value": "json", "registry": {}}}}) == []


def test_destinations_of_the_registry_can_be_given() -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "registry"}}}]
    policy = {"registryTo": peers}
    configuration = yaml.safe_dump(wire_format("https://registry.example:8085"))
    objects = rendered({"configuration": configuration, "networkPolicy": policy})
    egress = objects["NetworkPolicy", "release-stream-masker"]["spec"]["egress"]
    assert {"ports": [{"port": 8085, "protocol": "TCP"}], "to": peers} in egress


def test_an_unknown_kind_of_login_is_refused() -> None:
    with pytest.raises(ValueError, match="login"):
        rendered({"schemaRegistry": {**LOGIN, "login": "password"}})
