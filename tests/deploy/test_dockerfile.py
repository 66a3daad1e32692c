"""The Dockerfile: hadolint's findings, and how the image is built and run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.documentation import ROOT

from stream_masker.service.configuration import load_configuration

FILE = ROOT / "deploy" / "Dockerfile"
TEXT = FILE.read_text()
STAGES = re.split(r"^(?=FROM )", TEXT, flags=re.MULTILINE)
HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")


def lint(file: Path) -> list[str]:
    """Return the findings of hadolint, each with its rule."""
    assert HADOLINT is not None, "install the extra test: no hadolint"
    done = subprocess.run([HADOLINT, "--no-color", str(file)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_lint_finds_nothing() -> None:
    assert lint(FILE) == []


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("EXPOSE 9464", "EXPOSE 94640", "DL3011"),
        ("USER 65532:65532", "USER root", "DL3002"),
        ("WORKDIR /src", "WORKDIR src", "DL3000"),
    ],
)
def test_lint_finds_a_defect(tmp_path: Path, before: str, after: str, rule: str) -> None:
    assert before in TEXT
    (tmp_path / "Dockerfile").write_text(TEXT.replace(before, after))
    assert any(rule in finding for finding in lint(tmp_path / "Dockerfile"))


def test_the_base_is_an_argument_of_both_stages() -> None:
    head, build, final = STAGES
    assert re.search(r"^ARG BASE=", head, re.MULTILINE)
    assert build.startswith("FROM ${BASE} AS build\n")
    assert final.startswith("FROM ${BASE}\n")


def test_dependencies_are_those_of_the_lock_file() -> None:
    installs = re.findall(r"pip install [^&\n]*", TEXT)
    assert [re.findall(r"--[\w-]+", one) for one in installs] == [
        ["--no-cache-dir", "--require-hashes"],
        ["--no-cache-dir", "--no-deps", "--no-build-isolation"],
    ]


def test_the_image_does_not_run_as_root_and_takes_the_process_as_argument() -> None:
    final = STAGES[-1].splitlines()
    assert [line for line in final if line.startswith("USER ")] == ["USER 65532:65532"]
    assert 'ENTRYPOINT ["stream-masker"]' in final


def test_kernels_are_compiled_for_the_processor_that_the_final_stage_names() -> None:
    names = [
        re.search(r"NUMBA_CPU_NAME=\$\{CPU\} NUMBA_CPU_FEATURES= STREAM_MASKER_CACHE=(\S+)", s) for s in STAGES[1:]
    ]
    assert names[0][1] == names[1][1] == "/opt/stream-masker/cache"
    assert "stream-masker prepare --config /opt/stream-masker/prepare.yaml" in STAGES[1]


def test_the_configuration_of_the_image_is_that_of_the_example(tmp_path: Path) -> None:
    """The image contains the kernels and the ontology of the example's configuration."""
    (tmp_path / "image.yaml").write_text((ROOT / "deploy" / "image.yaml").read_text())
    example = yaml.safe_load((ROOT / "deploy" / "example-values.yaml").read_text())["configuration"]
    (tmp_path / "example.yaml").write_text(yaml.safe_dump(example, sort_keys=False))
    image, other = (load_configuration(tmp_path / name, {}) for name in ("image.yaml", "example.yaml"))
    assert image.masking_sections() == other.masking_sections()
