"""The outputs of the golden cases against their digests, for both codecs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from golden import digests
from golden.cases import CASES
from golden.ontologies import write_files
from golden.running import NAMES, run

pytestmark = pytest.mark.exhaustive

EXPECTED = digests.expected()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("golden"))


def check(name: str, lines: Mapping[str, Sequence[bytes]]) -> None:
    found, wanted = digests.digests_of(lines), EXPECTED[name]
    different = [part for part in digests.PARTS if found[part] != wanted[part]]
    assert not different, (
        f"{name}: {', '.join(different)} differ from digests.json. To compare the outputs, run this at both commits: "
        f"PYTHONPATH=tests python -m golden write FOLDER {name}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_outputs_are_those_of_the_digests(name: str, folder: Path) -> None:
    check(name, run(name, folder))


@pytest.mark.scheduled
@pytest.mark.parametrize("name", sorted(CASES))
def test_the_reference_codec_gives_the_same(name: str, folder: Path) -> None:
    check(name, run(name, folder, compiled=False))


def test_every_case_has_digests_and_every_digest_a_case() -> None:
    assert sorted(EXPECTED) == list(NAMES)
