"""Commands with a configuration of two populations: a topic chooses one, and the others work for both."""

from __future__ import annotations

import orjson
import pytest
import yaml
from file_commands import LINES, read, run, write

from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.build import build_mechanism

VISITS = [orjson.dumps({"visit": k, "why": f"{'ABC'[k % 3]}{1 + k % 2}", "name": "Ada"}) for k in range(120)]


@pytest.fixture
def several(config):
    """The configuration with a further population, whose events have one attribute."""
    content = yaml.safe_load(config.read_text())
    content["populations"] = {
        "emergency": {
            "topics": {"input": ["visits", "walk-ins"]},
            "attributes": {"why": {"path": "why", "ontology": "tree"}},
            "fields": {"keep": ["visit"], "unlisted": "drop"},
        }
    }
    config.write_text(yaml.safe_dump(content))
    return config


@pytest.mark.parametrize(("topic", "lines", "keys"), [("discharges", LINES, "ab"), ("walk-ins", VISITS, ["why"])])
def test_files_are_masked_and_calibrated_as_records_of_their_topic(several, tmp_path, topic, lines, keys):
    source, snapshot, masked = write(tmp_path / "in", lines), tmp_path / "snapshot", tmp_path / "out"
    run("calibrate", "--config", several, "--topic", topic, source, "-o", snapshot)
    run("mask", "--config", several, "--topic", topic, "--statistics", snapshot, source, masked)
    before, after = [orjson.loads(line) for line in lines], read(masked)
    assert len(after) == 120
    assert all("name" not in record for record in after)
    for key in keys:
        assert [record[key] for record in after] != [record[key] for record in before]


@pytest.mark.parametrize("command", ["mask", "calibrate", "evaluate", "recommend"])
def test_a_command_for_one_population_asks_which(several, tmp_path, command):
    limits = ["--max-rmse", "0.5"] if command == "recommend" else []
    done = run(command, "--config", several, *limits, write(tmp_path / "in", LINES), code=2)
    assert "populations: there are several" in done.output


@pytest.mark.parametrize(("topic", "lines", "name"), [("discharges", LINES, ""), ("visits", VISITS, "emergency")])
def test_recommend_changes_only_the_mechanism_of_the_population_of_the_topic(several, tmp_path, topic, lines, name):
    content = yaml.safe_load(several.read_text())
    content["attributes"]["a"]["alpha"] = 0.2
    several.write_text(yaml.safe_dump(content))
    best, source = tmp_path / "best.yaml", write(tmp_path / "in", lines)
    options = ["--max-rmse", "1", "--mechanisms", "pram", "--repeats", "2", "--processes", "1"]
    files = ["-o", best, "--report", tmp_path / "why.html"]
    run("recommend", "--config", several, "--topic", topic, *options, *files, source)
    before, after = load_configuration(several).by_population, load_configuration(best).by_population
    other = "" if name else "emergency"
    assert after[name].mechanism.name == "pram"
    assert after[other].masking_sections() == before[other].masking_sections()
    assert best.read_text().startswith("# population emergency: PRAM" if name else "# PRAM")


def test_check_shows_all_populations_and_the_coverage_of_one(several, tmp_path):
    source = write(tmp_path / "in", VISITS)
    done = run("config", "check", "--config", several, "--events", source, "--topic", "visits")
    assert "a: a masked within 12 concepts" in done.output
    assert "population emergency: why: why masked within 12 concepts" in done.output
    coverage = {line.split()[0] for line in done.output.splitlines() if "100" in line}
    assert {"why", "visit", "name"} <= coverage
    done = run("config", "check", "--config", several, "--events", source, code=2)
    assert "choose one by its input topic" in done.output


def test_all_populations_are_prepared(several, monkeypatch):
    built = lambda configuration, _: build_mechanism(configuration)  # noqa: E731 - without the rehearsal, which compiles
    monkeypatch.setattr("stream_masker.service.runtime.warmup.warm_up", built)
    done = run("prepare", "--config", several)
    assert "semantic_noise over a, b and semantic_noise over why are ready" in done.output


def test_access_is_that_of_all_populations_once(several):
    lines = run("topics", "--config", several, "--acls").output.splitlines()
    assert len(lines) == len(set(lines))
    for name in ("discharges", "visits", "walk-ins.masked", "stream-masker.statistics.emergency"):
        assert any(f"--topic {name}" in line for line in lines)
    groups = {line.partition("--group ")[2] for line in lines if "--group" in line and "worker" in line}
    assert {"stream-masker.discharges", "stream-masker.calibration.emergency.workers"} <= groups
