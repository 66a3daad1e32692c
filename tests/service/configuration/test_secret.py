"""Reading of the secret, which never appears in a message."""

from __future__ import annotations

import os

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.messages import SealError, TopicSeal
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.secret import read_secret, topic_seal

SECRET = b"hunter2hunter2hunter2"


@pytest.fixture
def written(data, tmp_path):
    """Write files that only their owner can read, and parse the minimal configuration with sections merged into it."""

    def parsed(files, mode=0o600, **sections):
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
            (tmp_path / name).chmod(mode)
        return parse_configuration(data(**{"secret": {"file": "secret"}, **sections}), folder=tmp_path)

    return parsed


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_line_break_at_the_end_is_removed(written, end):
    assert read_secret(written({"secret": SECRET + end})) == SECRET


@pytest.mark.parametrize("raw", [b"", b"\n", b"0123456789abcde", b"0123456789abcde\n"])
def test_short_secret_is_refused(written, raw):
    with pytest.raises(ConfigurationError, match=rf"^secret\.file: the secret has {len(raw.rstrip())} bytes: use at"):
        read_secret(written({"secret": raw}))


@pytest.mark.parametrize(
    ("mode", "who"), [(0o640, "a group"), (0o660, "a group"), (0o604, "every user"), (0o644, "every user")]
)
def test_file_that_others_may_read_is_refused(written, tmp_path, mode, who):
    with pytest.raises(ConfigurationError) as raised:
        read_secret(written({"secret": SECRET}, mode))
    said = f"secret.file: {who} has access to {tmp_path / 'secret'}: restrict its permissions (chmod 600)"
    assert str(raised.value) == said


def test_group_of_a_file_of_another_owner_may_read_it(written, monkeypatch):
    """Kubernetes mounts secrets as files of root with the mode 0440 and the group of the process."""
    configuration = written({"secret": SECRET}, 0o440)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert read_secret(configuration) == SECRET


def test_a_variable_disappears_from_the_environment_once_it_is_read(parse, monkeypatch):
    monkeypatch.setenv("MASKER_SECRET", SECRET.decode() + "\n")
    configuration = parse(secret={"env": "MASKER_SECRET"})
    assert [read_secret(configuration), read_secret(configuration)] == [SECRET, SECRET]
    assert "MASKER_SECRET" not in os.environ


def test_topics_are_read_with_earlier_secrets_and_written_with_the_current_one(written):
    files = {"secret": SECRET, "new": b"the new secret of all processes"}
    before = topic_seal(written(files), "statistics")
    after = topic_seal(written(files, secret={"file": "new"}, previous_secrets=[{"file": "secret"}]), "statistics")
    assert TopicSeal("statistics", [SECRET]).open(b"1", before.seal(b"1", b"{}")) == b"{}"
    assert after.open(b"1", before.seal(b"1", b"{}")) == b"{}"
    with pytest.raises(SealError, match="previous_secrets"):
        before.open(b"1", after.seal(b"1", b"{}"))


def test_processes_need_a_secret(parse):
    for read in (read_secret, lambda configuration: topic_seal(configuration, "statistics")):
        with pytest.raises(ConfigurationError, match="secret: required for masking: use a mapping with file or env"):
            read(parse())
