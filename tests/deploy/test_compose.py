"""The Compose file: it meets the specification, and everything that it names exists. Nothing here needs Docker."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from importlib.resources import files
from pathlib import Path

import click
import jsonschema
import prometheus
import pytest
import yaml
from support.documentation import ROOT

from stream_masker.cli import main
from stream_masker.service.configuration import load_configuration

FOLDER = ROOT / "deploy" / "compose"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"].startswith("stream-masker:")}
COMMANDS = {name: one for name, one in OURS.items() if "entrypoint" not in one}
DIGEST = r"@sha256:[0-9a-f]{64}"


def mounts(service: dict) -> dict[str, str]:
    """Return the sources of the mounted files, folders and volumes of a service, by their path in the container."""
    return {target: source for source, target, *_ in (one.split(":") for one in service.get("volumes", ()))}


def mounted(service: dict, path: str) -> Path:
    """Return the file of the repository that a service has at a path."""
    return (FOLDER / mounts(service)[path]).resolve()


def test_the_file_meets_the_specification_and_names_what_exists() -> None:
    schema = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(COMPOSE)
    for service in SERVICES.values():
        for source in mounts(service).values():
            assert (FOLDER / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], source
        assert set(service.get("depends_on", ())) <= set(SERVICES)


def test_the_image_is_built_from_the_dockerfile_and_others_are_named_by_digest() -> None:
    (base,) = re.findall(rf"^ARG BASE=(\S+{DIGEST})$", (ROOT / "deploy/Dockerfile").read_text(), re.M)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for service in OURS.values():
        assert (FOLDER / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).exists()
        assert service["build"]["args"]["BASE"] == f"${{BASE:-{base}}}"
        assert service["image"] == f"stream-masker:{version}"
    for name in SERVICES.keys() - OURS.keys():
        pattern = rf"\$\{{{name.upper()}_IMAGE:-[a-z/]+:v?[0-9.]+{DIGEST}\}}"
        assert re.fullmatch(pattern, SERVICES[name]["image"]), name


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_and_configurations_are_valid(name: str) -> None:
    service = COMMANDS[name]
    command, *options = service["command"]
    main.get_command(click.Context(main), command).make_context(command, list(options)).close()
    environment = service["environment"]
    configuration = load_configuration(mounted(service, environment["STREAM_MASKER_CONFIG"]), environment)
    assert configuration.http.host == "0.0.0.0"
    assert mounts(service)[str(Path(configuration.secret.file).parent)] == "secret"
    listener = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert listener == f"PLAINTEXT://{configuration.kafka.bootstrap_servers}"


def test_processes_have_few_rights() -> None:
    for name, service in OURS.items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert ("user" in service) == (name == "secret")
    assert all(port.startswith("127.0.0.1:") for one in SERVICES.values() for port in one.get("ports", ()))


def test_prometheus_accepts_its_files_and_scrapes_both_processes(tmp_path: Path) -> None:
    prometheus.required()
    service = SERVICES["prometheus"]
    file = mounted(service, dict(option.split("=") for option in service["command"])["--config.file"])
    given = yaml.safe_load(file.read_text())
    given["rule_files"] = [str(mounted(service, rules)) for rules in given["rule_files"]]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(given))
    check = ["promtool", "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    port = load_configuration(FOLDER / "stream-masker.yaml", {}).http.port
    assert given["scrape_configs"][0]["static_configs"] == [{"targets": [f"calibrator:{port}", f"worker:{port}"]}]
