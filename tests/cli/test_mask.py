"""The commands ``mask`` and ``calibrate``, which work on files."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys

import orjson
import pytest
from support.file_commands import (
    CODES,
    LINES,
    amend,
    event,
    read,
    run,
    without_activity,
    write,
)

from stream_masker.summary import ATTACKER


def test_every_line_is_masked_or_rejected(tmp_path, config):
    bad = [b"", b"not json", b'{"id":1,"a":"A1"}', b'{"id":2,"a":"A1","b":"secret code"}']
    source = write(tmp_path / "in.jsonl", [*LINES[:60], *bad, *LINES[60:]])
    masked, rejected = tmp_path / "out.jsonl", tmp_path / "rejected.jsonl"
    done = run("mask", "-c", config, "--rejected", rejected, source, masked)
    assert "masked 120, rejected 3 (not_json 1, missing at b 1, unknown_code at b 1), by statistics" in done.stderr
    assert [(r["offset"], r["reason"], r.get("field")) for r in read(rejected)] == [
        (62, "not_json", None),
        (63, "missing", "b"),
        (64, "unknown_code", "b"),
    ]
    assert b"secret code" not in rejected.read_bytes()
    after = read(masked)
    assert [record["id"] for record in after] == list(range(120))
    for k, record in enumerate(after):
        assert set(record) == {"id", "patient", "a", "b"}
        assert record["a"] != event(k)["a"]
        assert record["b"] != event(k)["b"]
        assert record["patient"] != event(k)["patient"]
    assert len({record["patient"] for record in after}) == 7


def test_snapshot_masks_like_its_window(tmp_path, config):
    source = write(tmp_path / "in.jsonl", LINES[:50])
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "in.jsonl").read_bytes()))
    snapshot, one, two = (tmp_path / name for name in ("snapshot.json", "one.jsonl", "two.jsonl"))
    run("calibrate", "-c", config, packed, "-o", snapshot)
    run("mask", "-c", config, source, one)
    run("mask", "-c", config, "--statistics", snapshot, source, two)
    assert one.read_bytes() == two.read_bytes()
    assert orjson.loads(snapshot.read_bytes())["source"] == "file"


def test_mask_reads_and_writes_standard_streams(tmp_path, config):
    data = b"".join(line + b"\r\n" for line in [*LINES, b"[]"])
    done = run("mask", "--config", config, input=data)
    assert len(done.stdout.splitlines()) == 120
    rejection, summary, learned, unchanged, kept, mechanism, guessed = without_activity(done.stderr)
    assert orjson.loads(rejection)["reason"] == "not_an_object"
    assert summary.startswith("read 121: masked 120, rejected 1")
    assert learned.startswith("Nothing is promised about single records: some masks make an attacker ")
    assert re.fullmatch(r"\d+% of the codes of a, \d+% of the codes of b and \d+% of the records stay as .*", unchanged)
    assert kept.startswith("Kept in expectation: ")
    assert mechanism == (
        "mechanism: semantic_noise (correlated, reference pair, rounding ceil, candidates all, alpha 0.3)"
    )
    chance, other = re.fullmatch(r"Guessed right: (\d+)%; with semantic_transport (\d+)%\. .*", guessed).groups()
    assert int(chance) > int(other) + 4


def test_the_summary_of_transport_states_its_promise(tmp_path, config):
    amend(config, mechanism={"name": "semantic_transport"})
    done = run("mask", "--config", config, write(tmp_path / "in.jsonl", LINES), tmp_path / "out.jsonl")
    learned, stays, kept, mechanism, guessed = done.stderr.splitlines()[-5:]
    assert learned.startswith(f"{ATTACKER} can be at most 31% sure of a code and ")
    assert re.fullmatch(r"\d+% of the codes of a and \d+% of the codes of b stay as they were\.", stays)
    assert kept.startswith("Kept in expectation: meaning, mean, dispersion, marginals and the correlation and cross ")
    assert mechanism == "mechanism: semantic_transport (alpha 1, certainty 0.5)"
    assert re.fullmatch(r"Guessed right: \d+%\. This is how often .*", guessed)  # noise is no better


@pytest.mark.parametrize("command", ["mask", "calibrate"])
def test_a_limit_that_fails_is_a_warning(tmp_path, config, command):
    amend(config, risk={"max_vulnerability": 0.01})
    out = ("-o", tmp_path / "out") if command == "calibrate" else ()
    more = (tmp_path / "out",) if command == "mask" else ()
    said = run(command, "--quiet", "--config", config, *out, write(tmp_path / "in.jsonl", LINES), *more).stderr
    assert [line.partition(": the vulnerability")[0] for line in said.splitlines()] == ["warning: a", "warning: b"]


def test_files_of_the_same_name_have_the_same_noise_only_with_the_same_content(tmp_path, config):
    """Equal lines at equal numbers of two files are masked independently, so their masks tell nothing about each."""
    snapshot, masked = tmp_path / "snapshot.json", []
    run("calibrate", "--config", config, write(tmp_path / "window.jsonl", LINES), "-o", snapshot)
    for day, lines in (("monday", LINES), ("copy", LINES), ("tuesday", [*LINES, LINES[0]])):
        (tmp_path / day).mkdir()
        source = write(tmp_path / day / "today.jsonl", lines)
        run("mask", "--config", config, "--statistics", snapshot, source, tmp_path / day / "masked.jsonl")
        masked.append((tmp_path / day / "masked.jsonl").read_bytes().splitlines())
    assert masked[0] == masked[1]
    assert sum(one != two for one, two in zip(masked[0], masked[2], strict=False)) > len(LINES) / 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["mask", "few.jsonl"], 1, "5 records are usable for statistics (read 6: masked 5, rejected 1 (not_json 1))"),
        (["mask", "none.jsonl"], 1, "none.jsonl cannot be read: No such file"),
        (["mask", "torn.jsonl.gz"], 1, "torn.jsonl.gz cannot be read to its end: it is not a complete gzip file"),
        (["mask", "same.jsonl", "./same.jsonl"], 1, "IN and OUT are the same file, same.jsonl: use another name"),
        (["calibrate", "same.jsonl", "-o", "same.jsonl"], 1, "FILE and --output are the same file, same.jsonl"),
        (["mask", "--statistics", "none.json", "few.jsonl"], 1, "none.json cannot be read"),
        (["mask", "--statistics", "few.jsonl", "few.jsonl"], 1, "statistics"),
        (["mask", "same.jsonl", "no/such/folder"], 1, "no/such/folder cannot be written: No such file or directory"),
        (["mask", "same.jsonl", "out.csv"], 1, "out.csv: json events are not written to files .csv: use .json"),
        (["calibrate", "constant.jsonl"], 1, "a: all values are equal"),
        (["calibrate", "empty.jsonl"], 1, "0 records are usable"),
    ],
)
def test_errors_are_one_message(tmp_path, config, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "few.jsonl", [*LINES[:5], b"?"])
    write(tmp_path / "empty.jsonl", [])
    write(tmp_path / "same.jsonl", LINES)
    write(tmp_path / "constant.jsonl", [b'{"id":1,"a":"A1","b":"%s"}' % code.encode() for code in CODES * 2])
    (tmp_path / "torn.jsonl.gz").write_bytes(gzip.compress(b"\n".join(LINES))[:-20])
    done = run(*arguments, code=code)
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert (tmp_path / "same.jsonl").read_bytes().splitlines() == LINES


def test_a_path_that_no_event_has_ends_with_1_and_names_path_and_reason(tmp_path, config):
    lines, snapshot = write(tmp_path / "in.jsonl", LINES), tmp_path / "statistics.json"
    run("calibrate", "-c", config, "--output", snapshot, lines)
    amend(config, noise_key="patient.idd")
    arguments = ["mask", "-c", config, "-q", "--rejected", tmp_path / "rejected.jsonl", "--statistics", snapshot, lines]
    done = run(*arguments, tmp_path / "out.jsonl", code=1)
    assert done.stderr.splitlines()[-1] == (
        "Error: 120 of 120 records were rejected: missing_noise_key at patient.idd 120. Check these paths in the "
        "configuration, or raise limits.rejected_share (0.1)"
    )
    amend(config, limits={"rejected_share": 1})
    run(*arguments, tmp_path / "out.jsonl")


def test_output_that_cannot_be_written_is_one_line(tmp_path):
    shell = f"exec {sys.executable} -P -m stream_masker ontology inspect icd10cm >/dev/full"
    done = subprocess.run(shell, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = without_activity(done.stderr)
    assert line == "Error: standard output cannot be written: No space left on device"


def test_explain_shows_how_the_codes_of_one_event_are_masked(tmp_path, config):
    source = write(tmp_path / "in.jsonl", LINES)
    run("mask", "-c", config, source, tmp_path / "out.jsonl")
    done = run("mask", "-c", config, "--explain", 17, source)
    masked, lines = read(tmp_path / "out.jsonl")[16], done.stdout.splitlines()
    assert lines[0] == "in.jsonl, event 17: semantic_noise, statistics version 1"
    assert lines.count(f"  value        {event(16)['a']}") >= 1
    assert [line.split()[1] for line in lines if line.startswith("  replacement")] == [masked["a"], masked["b"]]
    assert sum(line.startswith("  concept ") for line in lines) == 2
    assert orjson.loads(lines[-1].removeprefix("  written: ")) == masked
    source = write(tmp_path / "in.jsonl", [*LINES, b'{"id":1,"a":"A1"}'])
    assert "  rejected: missing at b" in run("mask", "-c", config, "--explain", 121, source).stdout
    assert "has no event 999" in run("mask", "-c", config, "--explain", 999, source, code=1).stderr


def test_what_changed_since_a_snapshot_is_said_with_a_verdict(tmp_path, config):
    snapshot = tmp_path / "snapshot.json"
    source = write(tmp_path / "in.jsonl", LINES)
    run("calibrate", "-c", config, source, "-o", snapshot)
    same = run("calibrate", "-c", config, source, "--since", snapshot)
    assert same.stdout == "statistics of 50 records\n"
    assert "drift since version 1: none" in same.stderr
    others = [orjson.dumps({**event(k), "a": "C3"}) if k % 2 else line for k, line in enumerate(LINES)]
    done = run("calibrate", "-c", config, write(tmp_path / "new.jsonl", others), "--since", snapshot, "--json")
    drift = orjson.loads(done.stdout)["drift"]
    assert drift["verdict"] in ("watch", "act")
    assert drift["attributes"]["a"]["moved"]
    assert "moved most: C3 Disease C3, " in done.stderr
    refused = run("calibrate", "-c", config, source, "--baseline", code=2)
    assert "--baseline is for --publish" in refused.stderr
