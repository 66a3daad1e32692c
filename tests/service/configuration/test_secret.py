"""Reading of the secret, which never appears in a message."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.seal import RefusalCause, SealError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration import secret as secret_module
from stream_masker.service.configuration.secret import (
    own_secret_id,
    read_secret,
    read_topic_secrets,
    required_secret_id,
    secret_id,
    topic_seal,
    warn_about_plain_topics,
)

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


def test_the_id_of_a_secret_is_stable_and_slow_to_compute(monkeypatch):
    """A guess needs 16 MiB; one of a masked record needs a single BLAKE2b."""
    calls = []
    scrypt = secret_module.hashlib.scrypt
    monkeypatch.setattr(secret_module.hashlib, "scrypt", lambda *a, **k: calls.append(k) or scrypt(*a, **k))
    secret_id.cache_clear()
    assert (secret_id(SECRET), secret_id(SECRET), len(calls)) == ("560a7547e10ea0fc", "560a7547e10ea0fc", 1)
    assert 128 * calls[0]["n"] * calls[0]["r"] >= 16 * 2**20
    assert secret_id(SECRET + b"!") != secret_id(SECRET)


def test_a_process_with_another_secret_than_its_configuration_names_does_not_start(data, tmp_path):
    written_files(tmp_path, secret=SECRET)
    source = {"secret": {"file": "secret"}}
    other = parse_configuration(data(**source, secret_id="0" * 16), folder=tmp_path)
    for read in (own_secret_id, required_secret_id):
        with pytest.raises(ConfigurationError, match=f"^secret_id: is {'0' * 16}, but the secret has the id 560a7547"):
            read(other)
    same = parse_configuration(data(**source, secret_id=secret_id(SECRET)), folder=tmp_path)
    assert own_secret_id(same) == required_secret_id(same) == secret_id(SECRET)


def test_a_process_without_the_secret_requires_the_configured_id(parse):
    assert required_secret_id(parse()) is None
    assert required_secret_id(parse(secret={"file": "nowhere"}, secret_id="a" * 16)) == "a" * 16


@pytest.mark.parametrize("raw", [b"", b"\n", b"0123456789abcde", b"0123456789abcde\n"])
def test_short_secret_is_refused(from_file, raw):
    with pytest.raises(ConfigurationError) as raised:
        read_secret(from_file(raw))
    assert str(raised.value) == f"secret.file: the secret has {len(raw.rstrip())} bytes: use at least 16"


def test_missing_file_is_an_error(parse):
    with pytest.raises(
        ConfigurationError, match=r"secret\.file: nowhere cannot be read: No such file.*; create one with `head"
    ):
        read_secret(parse(secret={"file": "nowhere"}))


def test_missing_variable_is_an_error(parse):
    with pytest.raises(ConfigurationError, match=r"secret\.env: the environment variable NAME is not set"):
        read_secret(parse(secret={"env": "NAME"}), {})


def test_masking_requires_a_secret(parse):
    with pytest.raises(ConfigurationError, match="secret: required for masking: use a mapping with file, env or exec"):
        read_secret(parse())


@pytest.mark.parametrize(
    ("mode", "who"), [(0o640, "a group"), (0o660, "a group"), (0o604, "every user"), (0o644, "every user")]
)
def test_file_that_others_may_read_is_refused(from_file, mode, who):
    with pytest.raises(ConfigurationError) as raised:
        read_secret(from_file(SECRET, mode))
    path = raised.value.args[0].split(" access to ")[1].split(":")[0]
    expected = f"secret.file: {who} has access to {path}: restrict its permissions (chmod 600)"
    assert str(raised.value) == expected


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_file_of_the_owner_alone_is_read(from_file, mode):
    assert read_secret(from_file(SECRET, mode)) == SECRET


def test_group_of_a_file_of_another_owner_may_read_it(from_file, monkeypatch):
    """Kubernetes mounts secrets as files of root with the mode 0440 and the group of the process."""
    configuration = from_file(SECRET, 0o440)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert read_secret(configuration) == SECRET


IN_CHILD = """
import os, pathlib
from stream_masker.service.configuration.secret import read_secret
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration import secret as secret_module
from stream_masker.service.runtime.process import protect_process
import ctypes, resource, sys
protect_process()
configuration = parse_configuration({DATA!r})
first, second = read_secret(configuration), read_secret(configuration)
shown = pathlib.Path("/proc/self/environ").read_bytes()
inherited = os.popen("env").read()
print(first == second == b"hunter2hunter2hunter2", b"hunter2" in shown, "hunter2" in inherited, b"OTHER=1" in shown)
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read the environment of a protected process")
def test_variable_disappears_from_the_environment_that_the_kernel_shows(data):
    given = {**data(secret={"env": "MASKER_SECRET"})}
    environ = {**os.environ, "MASKER_SECRET": SECRET.decode(), "OTHER": "1"}
    child = subprocess.run(
        [sys.executable, "-c", IN_CHILD.format(DATA=given)], env=environ, capture_output=True, text=True, check=True
    )
    assert child.stdout.split() == ["True", "False", "False", "True", "0", "0"]


TOPICS = b"the secret of the topics"


def written_files(folder, **files: bytes) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)


def test_topics_have_the_secret_of_the_noise_by_default(from_file):
    configuration = from_file(SECRET)
    assert read_topic_secrets(configuration) == [SECRET]
    seal = topic_seal(configuration, "statistics")
    assert seal.open(b"1", seal.seal(b"1", b"{}")) == b"{}"
    assert len(seal.key_ids) == 1


@pytest.mark.parametrize("topic", ["calibration", "statistics"])
def test_topics_are_encrypted_by_default(data, from_file, topic):
    assert "internal_topics" not in data()
    configuration = from_file(SECRET)
    seal = topic_seal(configuration, getattr(configuration.topics, topic))
    message = b'{"E11.9": 12, "I21.4": 3}'
    sealed = seal.seal(b"1", message)
    assert not any(message[at : at + 4] in sealed for at in range(len(message) - 3))
    assert seal.open(b"1", sealed) == message
    with pytest.raises(SealError) as refused:
        seal.open(b"1", message)
    assert refused.value.cause is RefusalCause.PLAIN


def test_topics_can_have_a_secret_of_their_own_and_previous_ones(data, tmp_path):
    written_files(tmp_path, topics=TOPICS, before=SECRET)
    section = {"secret": {"file": "topics"}, "previous_secrets": [{"file": "before"}, {"env": "OLDEST"}]}
    configuration = parse_configuration(data(internal_topics=section), folder=tmp_path)
    oldest = b"the first secret of all"
    assert read_topic_secrets(configuration, {"OLDEST": oldest.decode()}) == [TOPICS, SECRET, oldest]


def test_rotation_in_the_documented_order(data, tmp_path):
    """Every process reads the new secret before one writes with it; then no message is refused at any time."""
    written_files(tmp_path, old=SECRET, new=TOPICS)
    steps = [
        {"secret": {"file": "old"}},
        {"secret": {"file": "old"}, "previous_secrets": [{"file": "new"}]},
        {"secret": {"file": "new"}, "previous_secrets": [{"file": "old"}]},
        {"secret": {"file": "new"}},
    ]
    seals = [
        topic_seal(parse_configuration(data(internal_topics=step), folder=tmp_path), "statistics") for step in steps
    ]
    for before, after in pairwise(seals):
        for writer, reader in ((before, after), (after, before)):
            assert reader.open(b"1", writer.seal(b"1", b"{}")) == b"{}"
    with pytest.raises(SealError, match="previous_secrets"):
        seals[0].open(b"1", seals[2].seal(b"1", b"{}"))


def test_encryption_needs_a_secret(parse):
    with pytest.raises(ConfigurationError, match=r"use secret or internal_topics\.secret, with file, env or exec"):
        read_topic_secrets(parse())
    assert read_topic_secrets(parse(internal_topics={"encryption": False})) == []


def test_short_secrets_of_topics_are_refused(data, tmp_path):
    written_files(tmp_path, topics=b"short", long=TOPICS)
    section = {"secret": {"file": "long"}, "previous_secrets": [{"file": "topics"}]}
    with pytest.raises(ConfigurationError, match=r"previous_secrets\[0\]\.file: the secret has 5 bytes"):
        read_topic_secrets(parse_configuration(data(internal_topics=section), folder=tmp_path))


@pytest.mark.parametrize("section", [{"secret": {}}, {"previous_secrets": [{"file": "a", "env": "b"}]}])
def test_each_secret_of_the_topics_has_one_source(parse, section):
    with pytest.raises(ConfigurationError, match=r"internal_topics\..*use exactly one of file, env and exec"):
        parse(internal_topics=section)


@pytest.mark.parametrize(
    ("section", "logged"),
    [
        ({}, ""),
        ({"encryption": False}, "internal_topics.encryption is off"),
    ],
)
def test_plain_topics_are_logged_at_the_start(parse, caplog, section, logged):
    warn_about_plain_topics(parse(internal_topics=section))
    assert (logged in caplog.text) if logged else not caplog.records


def command(text, *arguments):
    return [sys.executable, "-c", text, *arguments]


def provided(parse, given):
    return read_secret(parse(secret={"exec": given}), {})


def test_a_command_provides_the_secret_once(parse, tmp_path):
    text = f"import sys; open({str(tmp_path / 'runs')!r}, 'a').write('x'); print(sys.argv[1] + sys.stdin.read())"
    given = command(text, SECRET.decode())
    assert [provided(parse, given), provided(parse, given)] == [SECRET, SECRET]
    assert (tmp_path / "runs").read_text() == "x"


def test_a_command_runs_without_a_shell(parse):
    text = "$(echo hunter2) `hunter2` > & ;"
    assert provided(parse, command("import sys; print(sys.argv[1])", text)) == text.encode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise SystemExit(3)", r"^secret\.exec: \S+ ended with exit code 3: run it by hand to see why$"),
        ("import os; os.kill(os.getpid(), 9)", r"^secret\.exec: \S+ ended with signal 9: run it by hand to see why$"),
        ("pass", r"^secret\.exec: the secret has 0 bytes: use at least 16$"),
        ("print('hunter2')", r"^secret\.exec: the secret has 7 bytes: use at least 16$"),
    ],
)
def test_a_command_that_fails_is_an_error_without_what_it_writes(parse, capfd, text, message):
    loud = f"import sys; print('hunter2', file=sys.stderr); {text}"
    with pytest.raises(ConfigurationError, match=message):
        provided(parse, command(loud, "an-argument"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["/nowhere/vault"], r"^secret\.exec: /nowhere/vault cannot be run: No such file or directory$"),
        ([sys.executable, "a\0b"], r"^secret\.exec: \S+ cannot be run: an argument has a null character$"),
    ],
)
def test_a_command_that_cannot_be_run_is_an_error(parse, given, message):
    with pytest.raises(ConfigurationError, match=message):
        provided(parse, given)


def test_a_command_that_does_not_end_is_killed_with_its_children(parse, monkeypatch, tmp_path):
    monkeypatch.setattr(secret_module, "COMMAND_SECONDS", 1.0)
    child = f"import time; time.sleep(1.5); open({str(tmp_path / 'late')!r}, 'w')"
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with pytest.raises(ConfigurationError, match=r"did not end within 1 seconds: run it by hand to see why$"):
        provided(parse, command(text))
    time.sleep(1.5)
    assert not (tmp_path / "late").exists()


def test_secrets_of_commands_rotate(parse):
    def source(text):
        return {"exec": command("import sys; print(sys.argv[1])", text * 16)}

    old = parse(internal_topics={"secret": source("a")})
    new = parse(internal_topics={"secret": source("b"), "previous_secrets": [source("a")]})
    assert read_topic_secrets(new, {}) == [b"b" * 16, b"a" * 16]
    sealed = topic_seal(old, "t", {}).seal(b"key", b"message")
    assert topic_seal(new, "t", {}).open(b"key", sealed) == b"message"
    with pytest.raises(SealError):
        topic_seal(old, "t", {}).open(b"key", topic_seal(new, "t", {}).seal(b"key", b"message"))
