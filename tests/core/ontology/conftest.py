"""Tests of ontologies use a cache folder of their own, so that sources are parsed."""

import pytest


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("STREAM_MASKER_CACHE", str(folder))
    return folder
