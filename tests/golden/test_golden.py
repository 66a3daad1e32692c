"""The outputs of the golden cases against their digests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden import cases
from stream_masker.core.mechanisms import MECHANISMS

EXPECTED = json.loads(cases.FILE.read_text())
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cases.write_files(tmp_path_factory.mktemp("golden"))


@pytest.mark.exhaustive
@pytest.mark.usefixtures("few_groups", "no_comparison")
@pytest.mark.parametrize("name", cases.CASES)
def test_the_outputs_are_those_of_the_digests(name: str, folder: Path) -> None:
    assert cases.digests(cases.outcome(name, folder)) == EXPECTED[name], f"{name} differs from digests.json"


def test_every_mechanism_has_a_case_and_every_digest_too() -> None:
    assert sorted(EXPECTED) == sorted(cases.CASES)
    assert {case["mechanism"]["name"] for case in cases.CASES.values()} == {*MECHANISMS}


def test_the_changelog_says_why_the_golden_set_changed() -> None:
    assert cases.mark() in CHANGELOG.read_text()
