"""Ontologies under test are parsed, not taken from the user's cache."""

import pytest


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("STREAM_MASKER_CACHE", str(folder))
    return folder
