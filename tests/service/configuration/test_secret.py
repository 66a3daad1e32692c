"""Reading of the secret, which never appears in a message."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.seal import SealError, TopicSeal
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.secret import (
    own_secret_id,
    read_secret,
    required_secret_id,
    secret_id,
    topic_seal,
)

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


def test_a_process_with_another_secret_than_its_configuration_names_does_not_start(written):
    other, same = (written({"secret": SECRET}, secret_id=one) for one in ("0" * 16, secret_id(SECRET)))
    for read in (own_secret_id, required_secret_id):
        with pytest.raises(ConfigurationError, match=f"^secret_id: is {'0' * 16}, but the secret has the id 560a7547"):
            read(other)
        assert read(same) == secret_id(SECRET)


def test_a_process_without_the_secret_requires_the_configured_id(parse):
    with pytest.raises(ConfigurationError, match="or set secret_id, which `stream-masker config check` prints"):
        required_secret_id(parse())
    assert required_secret_id(parse(secret={"file": "nowhere"}, secret_id="a" * 16)) == "a" * 16


@pytest.mark.parametrize("raw", [b"", b"\n", b"0123456789abcde", b"0123456789abcde\n"])
def test_short_secret_is_refused(written, raw):
    with pytest.raises(ConfigurationError) as raised:
        read_secret(written({"secret": raw}))
    assert str(raised.value) == f"secret.file: the secret has {len(raw.rstrip())} bytes: use at least 16"


def test_missing_file_is_an_error(parse):
    with pytest.raises(
        ConfigurationError, match=r"secret\.file: nowhere cannot be read: No such file.*; create one with `head"
    ):
        read_secret(parse(secret={"file": "nowhere"}))


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


def test_topics_have_the_secret_of_the_noise_by_default(written):
    seal = topic_seal(written({"secret": SECRET}), "statistics")
    assert TopicSeal("statistics", [SECRET]).open(b"1", seal.seal(b"1", b"{}")) == b"{}"
    assert len(seal.key_ids) == 1


def test_rotation_in_the_documented_order(written):
    """Every process reads the new secret before one writes with it; then no message is refused at any time."""
    steps = [
        {"secret": {"file": "secret"}},
        {"secret": {"file": "secret"}, "previous_secrets": [{"file": "new"}]},
        {"secret": {"file": "new"}, "previous_secrets": [{"file": "secret"}]},
        {"secret": {"file": "new"}},
    ]
    files = {"secret": SECRET, "new": b"the secret of the topics"}
    seals = [topic_seal(written(files, internal_topics=step), "statistics") for step in steps]
    for before, after in pairwise(seals):
        for writer, reader in ((before, after), (after, before)):
            assert reader.open(b"1", writer.seal(b"1", b"{}")) == b"{}"
    with pytest.raises(SealError, match="previous_secrets"):
        seals[0].open(b"1", seals[2].seal(b"1", b"{}"))


def test_encryption_needs_a_secret(parse):
    with pytest.raises(ConfigurationError, match=r"use secret or internal_topics\.secret, with file or env"):
        topic_seal(parse(), "statistics")
