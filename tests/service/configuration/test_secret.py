"""Reading of the secret, which never appears in a message."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.secret import read_secret

SECRET = b"hunter2hunter2hunter2"


@pytest.fixture
def from_file(data, tmp_path):
    def written(raw: bytes, mode: int = 0o600):
        path = tmp_path / "secret"
        path.write_bytes(raw)
        path.chmod(mode)
        return parse_configuration(data(secret={"file": "secret"}), folder=tmp_path)

    return written


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_line_break_at_the_end_is_removed(from_file, end):
    assert read_secret(from_file(SECRET + end)) == SECRET


def test_only_one_line_break_is_removed(from_file):
    assert read_secret(from_file(SECRET + b"\n\n")) == SECRET + b"\n"


def test_secret_can_be_any_bytes(from_file):
    assert read_secret(from_file(bytes(range(128, 192)))) == bytes(range(128, 192))


def test_secret_from_the_environment(parse):
    configuration = parse(secret={"env": "NAME"})
    assert read_secret(configuration, {"NAME": SECRET.decode() + "\n"}) == SECRET


@pytest.mark.parametrize("raw", [b"", b"\n", b"0123456789abcde", b"0123456789abcde\n"])
def test_short_secret_is_refused(from_file, raw):
    with pytest.raises(ConfigurationError) as raised:
        read_secret(from_file(raw))
    assert str(raised.value) == f"secret.file: the secret has {len(raw.rstrip())} bytes: use at least 16"


def test_missing_file(parse):
    with pytest.raises(ConfigurationError, match=r"secret\.file: nowhere cannot be read: No such file"):
        read_secret(parse(secret={"file": "nowhere"}))


def test_missing_variable(parse):
    with pytest.raises(ConfigurationError, match=r"secret\.env: the environment variable NAME is not set"):
        read_secret(parse(secret={"env": "NAME"}), {})


def test_no_secret(parse):
    with pytest.raises(ConfigurationError, match="secret: required for masking: use a mapping with file or env"):
        read_secret(parse())


@pytest.mark.parametrize(("mode", "warnings"), [(0o600, 0), (0o640, 0), (0o644, 1)])
def test_world_readable_file_logs_a_warning(from_file, caplog, mode, warnings):
    read_secret(from_file(SECRET, mode))
    assert len(caplog.records) == warnings
    assert SECRET.decode() not in caplog.text
