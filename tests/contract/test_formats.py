"""The formats of statistics, as the documentation states them."""

from __future__ import annotations

from support.documentation import ROOT

from stream_masker.core.mechanisms import MECHANISMS, SemanticTransport
from stream_masker.pipeline.messages import MESSAGE_FORMAT


def test_every_format_is_named_in_the_changelog_and_among_the_failure_modes() -> None:
    kinds = set(MECHANISMS.values())
    others = {kind.snapshot_format for kind in kinds if kind is not SemanticTransport}
    assert (len(kinds) > 5, others, MESSAGE_FORMAT) == (True, {1}, 1)
    changes, page = (" ".join((ROOT / name).read_text().split()) for name in ("CHANGELOG.md", "docs/operations.md"))
    assert f"transport has format {SemanticTransport.snapshot_format}" in changes
    assert f"Semantic transport has format {SemanticTransport.snapshot_format}, all other" in page
