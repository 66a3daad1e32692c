"""A configuration for commands that work on files."""

from __future__ import annotations

import pytest
from support.file_commands import write_configuration


@pytest.fixture
def config(tmp_path):
    """The path of a configuration with a small taxonomy."""
    return write_configuration(tmp_path)
