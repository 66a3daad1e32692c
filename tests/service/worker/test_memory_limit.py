"""The memory limit of a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_masker.service.worker.client_properties import memory_limit


@pytest.mark.parametrize(
    ("text", "limit"), [("805306368\n", 805_306_368), ("max\n", None), (f"{2**63 - 4096}\n", None), ("", None)]
)
def test_the_limit_is_that_of_the_control_group(tmp_path: Path, text: str, limit: int | None) -> None:
    file = tmp_path / "memory.max"
    file.write_text(text)
    assert memory_limit([tmp_path / "missing", file]) == limit


def test_without_a_control_group_there_is_no_limit(tmp_path: Path) -> None:
    assert memory_limit([tmp_path / "missing"]) is None
