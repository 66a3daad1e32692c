"""Which files of machine code are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stream_masker.core.kernels import disk_cache
from stream_masker.core.kernels.disk_cache import UntrustedCodeError, read_trusted, write_private

STRANGER = 54_321


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "kernels").mkdir(0o755)
    made = tmp_path / "kernels" / "k"
    write_private(made, b"code")
    return made


def test_a_file_that_only_its_owner_can_write_is_read(file: Path) -> None:
    assert read_trusted(file) == b"code"


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(UntrustedCodeError, match="other users can write to"):
        read_trusted(file)


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_file_in_a_folder_that_others_can_write_is_refused(file: Path, mode: int) -> None:
    file.parent.chmod(mode)
    with pytest.raises(UntrustedCodeError):
        read_trusted(file)


@pytest.mark.skipif(os.geteuid() != disk_cache.ROOT, reason="only root gives files to another user")
def test_a_file_or_folder_of_another_user_is_refused(file: Path) -> None:
    for path in (file, file.parent):
        os.chown(path, STRANGER, -1)
        with pytest.raises(UntrustedCodeError):
            read_trusted(file)
        os.chown(path, disk_cache.ROOT, -1)
    assert read_trusted(file) == b"code"


def test_a_file_of_a_user_who_is_not_trusted_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "trusted_users", lambda: frozenset({STRANGER}))
    with pytest.raises(UntrustedCodeError):
        read_trusted(file)


def test_root_the_user_and_the_owner_of_the_package_are_trusted() -> None:
    owner = Path(disk_cache.__file__).stat().st_uid
    assert disk_cache.trusted_users() == {0, os.geteuid(), owner}


def test_a_private_file_is_not_written_over_another(file: Path) -> None:
    with pytest.raises(FileExistsError):
        write_private(file, b"other")
