"""Output files: complete or not at all, compressed by name, and never the same file as an input."""

from __future__ import annotations

import gzip
import os
import stat
from contextlib import nullcontext

import pytest

from stream_masker.errors import ServiceError
from stream_masker.service.files.streams import open_output, refuse_same_file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_after_an_error_the_old_file_is_unchanged_and_nothing_else_is_there(tmp_path, error):
    target = tmp_path / "out.jsonl"
    target.write_text("before")

    def fail():
        with open_output(str(target)) as stream:
            stream.write(b"half" * 100_000)
            raise error

    with pytest.raises(error):
        fail()
    assert target.read_text() == "before"
    assert names(tmp_path) == ["out.jsonl"]


def test_a_file_appears_when_it_is_complete_keeps_its_mode_and_is_private_if_it_is_new(tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("before")
    target.chmod(0o640)
    with open_output(str(target)) as stream:
        stream.write(b"after")
        stream.flush()
        assert target.read_text() == "before"
    assert target.read_text() == "after"
    with open_output(str(tmp_path / "new")):
        pass
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out.jsonl", "new")] == [0o640, 0o600]


def test_a_link_is_kept_and_its_file_replaced(tmp_path):
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    with open_output(str(tmp_path / "link")) as stream:
        stream.write(b"after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"


@pytest.mark.parametrize("size", [0, 10, 3_000_000])
def test_the_name_selects_compression(tmp_path, size):
    data = os.urandom(size)
    with open_output(str(tmp_path / "out.jsonl.gz")) as stream:
        for start in range(0, size, 100_000):
            stream.write(data[start : start + 100_000])
    assert gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()) == data


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_full_disk_is_one_message(tmp_path, suffix):
    link = tmp_path / f"out.jsonl{suffix}"
    link.symlink_to("/dev/full")

    def fill():
        with open_output(str(link)) as stream:
            stream.write(os.urandom(4_000_000))

    with pytest.raises(ServiceError, match=f"out.jsonl{suffix} cannot be written: No space left on device"):
        fill()


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({"IN": "a"}, {"OUT": "./a"}, "IN and OUT are the same file, a"),
        ({"IN": "a"}, {"OUT": "link"}, "IN and OUT are the same file"),
        ({"IN": "a"}, {"OUT": "new", "--rejected": "./new"}, "OUT and --rejected are the same file"),
        ({"IN": "a", "--statistics": ""}, {"OUT": "b", "--rejected": ""}, None),
        ({"IN": "/dev/null"}, {"OUT": "/dev/null", "--rejected": "/dev/null"}, None),
    ],
)
def test_the_same_file_is_refused_unless_it_is_a_device(tmp_path, monkeypatch, inputs, outputs, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("content")
    (tmp_path / "link").symlink_to("a")
    with nullcontext() if message is None else pytest.raises(ServiceError, match=message):
        refuse_same_file(inputs, outputs)
