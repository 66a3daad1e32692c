"""What commands write to: no file that their configuration names, and new files for their owner only."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml
from support.file_commands import LINES, run, write, write_configuration

NAMED = ("secret", "tree.csv", "mapping.csv", "stream-masker.yaml")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration that names files of every kind that a masking command reads."""
    path = write_configuration(tmp_path)
    (tmp_path / "mapping.csv").write_text("value,concept\nX,A1\n")
    content = yaml.safe_load(path.read_text())
    content["attributes"]["a"]["mapping"] = "mapping.csv"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(
    "command",
    [
        ("mask", "IN", "TARGET"),
        ("mask", "--rejected", "TARGET", "IN", "OUT"),
        ("calibrate", "IN", "-o", "TARGET"),
        ("evaluate", "IN", "--output", "TARGET"),
        ("produce", "--synthetic", "2", "--out", "TARGET"),
    ],
    ids=" ".join,
)
def test_no_command_writes_to_a_file_that_its_configuration_names(
    config: Path, tmp_path: Path, command: tuple[str, ...], name: str
) -> None:
    files = {"IN": write(tmp_path / "in.jsonl", LINES), "OUT": tmp_path / "out", "TARGET": tmp_path / name}
    before = (tmp_path / name).read_bytes()
    name_of_command, *arguments = command
    done = run(name_of_command, "-c", config, *(files.get(one, one) for one in arguments), code=1)
    assert "are the same file" in done.stderr
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.exhaustive
def test_a_configuration_with_properties_of_kafka_is_for_its_owner_only(tmp_path: Path) -> None:
    """A property may be a password."""
    with_password, without = tmp_path / "a.yaml", tmp_path / "b.yaml"
    run("config", "init", "--property", "sasl.password=secret", "-o", with_password)
    run("config", "init", "-o", without)
    assert [stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in (with_password, without)] == [True, False]


def test_outputs_of_values_are_for_their_owner_only(config: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", LINES)
    snapshot, masked, rejected = (tmp_path / name for name in ("s.json", "m.jsonl", "r.jsonl"))
    run("calibrate", "-c", config, source, "-o", snapshot)
    run("mask", "-c", config, "--statistics", snapshot, "--rejected", rejected, source, masked)
    for path in (snapshot, masked, rejected):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_file_that_was_there_keeps_its_mode(config: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared.jsonl"
    shared.touch(0o644)
    shared.chmod(0o644)
    run("mask", "-c", config, write(tmp_path / "in.jsonl", LINES), shared)
    assert stat.S_IMODE(shared.stat().st_mode) == 0o644
