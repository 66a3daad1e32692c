"""The Dockerfile: hadolint's findings, and how the image is built and run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
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


def test_the_base_is_an_argument_of_all_stages() -> None:
    head, *stages = STAGES
    assert re.search(r"^ARG BASE=", head, re.MULTILINE)
    assert [stage.splitlines()[0] for stage in stages] == [
        "FROM ${BASE} AS locked",
        "FROM locked AS dependencies",
        "FROM locked AS build",
        "FROM ${BASE}",
    ]


def test_the_layer_of_the_dependencies_does_not_change_with_the_code() -> None:
    _, locked, dependencies, _, final = STAGES
    assert re.findall(r"^COPY (.*)$", locked + dependencies, re.M) == ["deploy/requirements.lock ./"]
    assert re.findall(r"^COPY --from=(.*)$", final, re.M) == [
        "dependencies /opt/stream-masker /opt/stream-masker",
        "build /opt/application /opt/application",
    ]


def test_the_image_has_no_pip() -> None:
    assert "venv --without-pip /opt/stream-masker" in STAGES[1]
    (removed,) = re.findall(r"^RUN rm -rf ((?:.*\\\n)*.*)$", STAGES[-1], re.M)
    assert {Path(one).name for one in removed.split() if one != "\\"} == {"pip*", "ensurepip", "python-wheels"}


def test_the_image_has_the_labels_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', STAGES[-1]))
    assert labels.keys() == {"title", "description", "version", "revision", "licenses"}
    assert (labels["title"], labels["version"]) == (project["name"], project["version"])
    assert labels["licenses"] == project["license"]


def test_dependencies_are_those_of_the_lock_file() -> None:
    installs = re.findall(r"pip --python \S+ install [^&\n]*", TEXT)
    assert [re.findall(r"--[\w-]+", one)[1:] for one in installs] == [
        ["--no-cache-dir", "--require-hashes"],
        ["--no-cache-dir", "--no-deps", "--no-build-isolation", "--target"],
    ]


def test_the_image_does_not_run_as_root_and_takes_the_process_as_argument() -> None:
    final = STAGES[-1].splitlines()
    assert [line for line in final if line.startswith("USER ")] == ["USER 65532:65532"]
    assert 'ENTRYPOINT ["stream-masker"]' in final


def test_kernels_are_compiled_for_the_processor_that_the_final_stage_names() -> None:
    pattern = r"NUMBA_CPU_NAME=\$\{CPU\} NUMBA_CPU_FEATURES= STREAM_MASKER_CACHE=(\S+)"
    assert re.findall(pattern, STAGES[3]) == re.findall(pattern, STAGES[-1]) == ["/opt/application/cache"]
    assert "RUN sh compile-kernels.sh /opt/application" in STAGES[3]


def test_the_configuration_of_the_image_is_that_of_the_example(tmp_path: Path) -> None:
    """The image contains the kernels and the ontology of the example, and the kernels of the default method."""
    (tmp_path / "image.yaml").write_text((ROOT / "deploy" / "image.yaml").read_text())
    example = yaml.safe_load((ROOT / "deploy" / "example-values.yaml").read_text())["configuration"]
    (tmp_path / "example.yaml").write_text(yaml.safe_dump(example, sort_keys=False))
    image, other = (load_configuration(tmp_path / name, {}) for name in ("image.yaml", "example.yaml"))
    assert image.masking_sections() == other.masking_sections()
    flat = load_configuration(ROOT / "deploy" / "image-flat.yaml", {})
    noise = load_configuration(ROOT / "deploy" / "image.yaml", {"STREAM_MASKER__MECHANISM__NAME": "semantic_noise"})
    names = [each.mechanism.name for each in (image, noise, flat)]
    assert names == ["semantic_transport", "semantic_noise", "semantic_transport"]


def test_all_files_that_are_copied_are_in_the_context() -> None:
    copied = {one for line in re.findall(r"^COPY (?!--)(.*) \S+$", TEXT, re.M) for one in line.split()}
    admitted = (ROOT / ".dockerignore").read_text().splitlines()
    assert "deploy/image-flat.yaml" in copied
    assert {f"!{one}" for one in copied} <= set(admitted)
