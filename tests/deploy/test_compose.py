"""The Compose file for one machine: it meets the specification, and everything that it names exists and parses.

Nothing here needs Docker, and nothing pulls an image.
"""

from __future__ import annotations

import json
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import click
import jsonschema
import prometheus
import pytest
import yaml
from dashboards import DASHBOARDS
from support.documentation import ROOT

from stream_masker.cli import main
from stream_masker.service.configuration import load_configuration

FOLDER = ROOT / "deploy" / "compose"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"].startswith("stream-masker:")}
COMMANDS = {name: one for name, one in OURS.items() if "entrypoint" not in one}
SERVICE_KEY = "KAFKA_"
DIGEST = r"@sha256:[0-9a-f]{64}"


def mounts(service: dict) -> dict[str, str]:
    """Return the sources of the mounted files, folders and volumes of a service, by their path in the container."""
    return {target: source for source, target, *_ in (one.split(":") for one in service.get("volumes", ()))}


def mounted(service: dict, path: str) -> Path:
    """Return the file of the repository that a service has at a path."""
    return (FOLDER / mounts(service)[path]).resolve()


def test_file_meets_the_compose_specification() -> None:
    schema = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(COMPOSE)


def test_the_schema_of_the_specification_refuses_unknown_keys() -> None:
    schema = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    with pytest.raises(jsonschema.ValidationError, match="comand"):
        jsonschema.Draft7Validator(json.loads(schema.read_text())).validate({"services": {"a": {"comand": []}}})


def test_all_parts_are_there() -> None:
    assert set(SERVICES) == {
        *("kafka", "secret", "topics", "calibrator", "worker", "producer", "prometheus", "grafana"),
    }


@pytest.mark.parametrize("name", SERVICES)
def test_mounts_and_dependencies_exist(name: str) -> None:
    for source in mounts(SERVICES[name]).values():
        assert (FOLDER / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], source
    dependencies = SERVICES[name].get("depends_on", {})
    assert set(dependencies) <= set(SERVICES)
    for other, how in dependencies.items() if isinstance(dependencies, dict) else ():
        assert how["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]


def test_image_is_built_from_the_dockerfile() -> None:
    for service in OURS.values():
        build = service["build"]
        assert (FOLDER / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).exists()
    project = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project is not None
    default = re.search(r"^ARG BASE=(.+)$", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert default is not None
    assert re.fullmatch(rf"[a-z./]+:[a-z0-9.-]+{DIGEST}", default[1])
    assert {one["build"]["args"]["BASE"] for one in OURS.values()} == {f"${{BASE:-{default[1]}}}"}
    assert {one["image"] for one in OURS.values()} == {f"stream-masker:{project[1]}"}


def test_images_of_others_are_named_by_digest_and_can_be_replaced() -> None:
    others = {name: one["image"] for name, one in SERVICES.items() if name not in OURS}
    assert others
    for name, image in others.items():
        assert re.fullmatch(rf"\$\{{{name.upper()}_IMAGE:-[a-z/]+:v?[0-9.]+{DIGEST}\}}", image), image


@pytest.mark.parametrize("name", COMMANDS)
def test_command_lines_are_those_of_stream_masker(name: str) -> None:
    command, *options = COMMANDS[name]["command"]
    found = main.get_command(click.Context(main), command)
    assert found is not None
    found.make_context(command, list(options)).close()


def test_wrong_options_are_noticed() -> None:
    found = main.get_command(click.Context(main), "produce")
    with pytest.raises(click.UsageError):
        found.make_context("produce", ["--record", "5"])


@pytest.mark.parametrize("name", COMMANDS)
def test_configuration_is_valid_in_the_environment_of_the_service(name: str) -> None:
    service = COMMANDS[name]
    environment = service["environment"]
    found = load_configuration(mounted(service, environment["STREAM_MASKER_CONFIG"]), environment)
    assert found.http.host == "0.0.0.0"
    assert found.secret is not None
    assert mounts(service)[str(Path(found.secret.file).parent)] == "secret"
    assert (
        found.kafka.bootstrap_servers == SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split("//")[1]
    )


def test_processes_have_few_rights() -> None:
    for name, service in OURS.items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert ("user" in service) == (name == "secret")
    assert all(port.startswith("127.0.0.1:") for one in SERVICES.values() for port in one.get("ports", ()))


def test_the_command_of_the_secret_writes_it_once(tmp_path: Path) -> None:
    (script,) = SERVICES["secret"]["command"]
    script = script.replace("/run/secrets/stream-masker", str(tmp_path)).replace("chown 65532:65532", "true")
    assert SERVICES["secret"]["entrypoint"] == ["sh", "-c"]
    written = []
    for _ in range(2):
        subprocess.run(["sh", "-c", script], check=True)
        written.append((tmp_path / "secret").read_bytes())
    assert len(written[0]) == 32
    assert written[0] == written[1]
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o400


def test_prometheus_accepts_its_files_and_scrapes_both_processes(tmp_path: Path) -> None:
    prometheus.required()
    service = SERVICES["prometheus"]
    options = dict(option.split("=") for option in service["command"])
    file = mounted(service, options["--config.file"])
    given = yaml.safe_load(file.read_text())
    given["rule_files"] = [str(mounted(service, rules)) for rules in given["rule_files"]]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(given))
    check = ["promtool", "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    known = subprocess.run(["prometheus", "--help"], capture_output=True, text=True, check=False)
    assert all(option in known.stdout + known.stderr for option in options)
    (scrape,) = given["scrape_configs"]
    port = load_configuration(FOLDER / "stream-masker.yaml", {}).http.port
    assert scrape["static_configs"] == [{"targets": [f"calibrator:{port}", f"worker:{port}"]}]


def test_grafana_finds_its_source_and_the_dashboards() -> None:
    service = SERVICES["grafana"]
    provisioning = "/etc/grafana/provisioning"
    sources = yaml.safe_load(mounted(service, f"{provisioning}/datasources/stream-masker.yaml").read_text())
    (source,) = sources["datasources"]
    host, _, port = source["url"].removeprefix("http://").partition(":")
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    assert f"127.0.0.1:{port}:{port}" in SERVICES[host]["ports"]
    (provider,) = yaml.safe_load(mounted(service, f"{provisioning}/dashboards/stream-masker.yaml").read_text())[
        "providers"
    ]
    folder = provider["options"]["path"]
    assert {file.stem for file in mounted(service, folder).iterdir()} == {one.name for one in DASHBOARDS}
    home = service["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (mounted(service, folder) / Path(home).relative_to(folder)).exists()


@pytest.mark.kafka
def test_kafka_accepts_its_settings(tmp_path: Path) -> None:
    """The image turns the environment into properties. Kafka's own tool reads them and formats the log folder."""
    from kafka_broker import KafkaUnavailableError, find, jars

    environment = SERVICES["kafka"]["environment"]
    names = {name: name.removeprefix(SERVICE_KEY).lower().replace("_", ".") for name in environment}
    properties = {names[name]: str(value) for name, value in environment.items()}
    assert mounts(SERVICES["kafka"])[properties["log.dirs"]] == "kafka"
    properties["log.dirs"] = str(tmp_path / "data")
    (tmp_path / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    try:
        command = [find("java"), "-cp", f"{jars()}/*", "kafka.tools.StorageTool", "format"]
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    options = ["-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(tmp_path / "server.properties")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "data" / "meta.properties").exists()
