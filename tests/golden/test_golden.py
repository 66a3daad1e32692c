"""The outputs of the golden cases against their digests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from golden import digests
from golden.cases import CASES
from golden.ontologies import write_files
from stream_masker.core.mechanisms import MECHANISMS

EXPECTED = digests.expected()
TESTS = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parents[1])])
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("golden"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_the_outputs_are_those_of_the_digests(name: str, folder: Path) -> None:
    found, wanted = digests.digests_of(digests.lines_of(name, folder)), EXPECTED[name]
    different = [part for part in digests.PARTS if found[part] != wanted[part]]
    assert not different, (
        f"{name}: {', '.join(different)} differ from digests.json. To compare the outputs, run this at both commits: "
        f"PYTHONPATH=tests python -m golden write FOLDER {name}"
    )


def test_every_case_has_digests_and_every_digest_a_case() -> None:
    assert sorted(EXPECTED) == sorted(CASES)


def test_every_mechanism_has_a_case() -> None:
    assert {case.configuration["mechanism"].get("name", "semantic_noise") for case in CASES.values()} == {*MECHANISMS}


def test_the_changelog_says_why_the_golden_set_changed() -> None:
    assert digests.mark() in CHANGELOG.read_text()
