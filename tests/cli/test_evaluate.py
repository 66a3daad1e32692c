"""The commands ``evaluate``, ``recommend`` and ``reproduce``."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from support.file_commands import LINES, amend, run, write

from stream_masker.cli import main

FEW = ["--repeats", "2", "--processes", "1"]

pytestmark = pytest.mark.usefixtures("few_groups")


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "in.jsonl", LINES)


def test_evaluate_writes_the_same_report_twice(tmp_path, config, source):
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    for output in (first, second):
        done = run("evaluate", "-c", config, "--mechanisms", "pram,naive_distortion", *FEW, "-o", output, source)
    assert "measured 6 settings; the report is " in done.stderr
    assert "measured 6 of 6" in done.stderr
    for suffix in (".html", ".json", ".csv"):
        assert first.with_suffix(suffix).read_bytes() == second.with_suffix(suffix).read_bytes()
    data = json.loads(first.with_suffix(".json").read_bytes())
    assert data["records"] == 120
    assert data["measurements"][0]["method"] == "as configured"
    assert data["measurements"][0]["options"]["rounding"] == "ceil"


def test_quiet_leaves_the_files_alone_and_json_is_one_line(tmp_path, config, source):
    done = run("evaluate", "-c", config, "-q", "--mechanisms", "pram", *FEW, "-o", tmp_path / "r.html", source)
    assert (done.output, (tmp_path / "r.html").exists()) == ("", True)
    limits = ["--max-rmse", "0.9", "--mechanisms", "pram"]
    assert recommended(config, source, tmp_path, "-q", *limits).output == ""
    assert (tmp_path / "best.yaml").exists()
    done = recommended(config, source, tmp_path, "--json", "-q", *limits)
    found = json.loads(done.stdout)
    assert (found["met"], found["best"]["mechanism"], done.stderr) == (True, "pram", "")
    done = recommended(config, source, tmp_path, "--json", "--max-rmse", "0", "--mechanisms", "pram", code=3)
    assert json.loads(done.stdout)["met"] is False


def test_evaluate_reads_tables_and_samples(tmp_path, config, source):
    rows = [json.loads(line) for line in LINES]
    table, parquet = tmp_path / "in.csv", tmp_path / "in.parquet"
    table.write_text("a,b\n" + "".join(f"{row['a']},{row['b']}\n" for row in rows))
    pq.write_table(pa.table({name: [row[name] for row in rows] for name in ("a", "b")}), parquet)
    reports = []
    for path in (source, table, parquet):
        report = tmp_path / "report.json"
        options = ["--mechanisms", "pram", "--records", "60", *FEW, "-o", tmp_path / "r.html", "--json-file", report]
        run("evaluate", "-c", config, *options, path)
        reports.append(report.read_bytes())
    assert reports == [reports[0]] * 3
    assert json.loads(reports[0])["records"] == 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mechanisms", "magic"], "'magic' is not allowed: use all, semantic_noise, "),
        (["--alpha", "0.1,eleven"], "'0.1,eleven' is not allowed: use numbers in (0, 10], such as 0.1,0.3"),
        (["--alpha", "11"], "'11' is not allowed: use numbers in (0, 10], such as 0.1,0.3"),
        (["--confidential", "c"], "'c' is not allowed: use a, b"),
    ],
)
def test_evaluate_says_what_is_allowed(config, source, options, message):
    assert message in run("evaluate", "-c", config, *options, source, code=2).output


def test_evaluate_says_which_events_it_measures(tmp_path, config):
    source = write(tmp_path / "in.jsonl", [*LINES, b'{"a": "unknown", "b": "A1"}', b"{}"])
    report = tmp_path / "r.html"
    done = run("evaluate", "-c", config, "--mechanisms", "pram", "--records", "50", *FEW, "-o", report, source)
    assert "2 of 122 events cannot be masked as configured and are left out" in done.stderr
    data = json.loads(report.with_suffix(".json").read_bytes())
    assert (data["records"], data["available"], data["left_out"]) == (50, 120, 2)
    assert "They are a random sample of 120, always the same one." in report.read_text()
    assert "2 events of the file are left out" in report.read_text()
    done = run("evaluate", "-c", config, "--mechanisms", "pram", *FEW, "-o", report, write(tmp_path / "all", LINES))
    assert "left out" not in done.stderr + report.read_text()
    assert "random sample of" not in report.read_text()


def test_evaluate_needs_events(tmp_path, config):
    bad = write(tmp_path / "bad.jsonl", [b"{}"])
    assert "bad.jsonl has no event that can be masked" in run("evaluate", "-c", config, bad, code=1).output


def recommended(config, source, folder, *options, code=0):
    files = ["-o", folder / "best.yaml", "--report", folder / "why.html"]
    return run("recommend", "-c", config, *options, *FEW, *files, source, code=code)


@pytest.mark.exhaustive
def test_recommend_writes_a_valid_configuration_within_the_limits(tmp_path, config, source):
    some = ["--mechanisms", "pram,random"]
    done = recommended(config, source, tmp_path, *some, "--max-vulnerability", "0.9", "--max-rmse", "0.6")
    assert " is recommended: RMSE 0." in done.stdout
    run("config", "check", "-c", tmp_path / "best.yaml")
    chosen = yaml.safe_load((tmp_path / "best.yaml").read_text())
    before = yaml.safe_load(config.read_text())
    assert {key for key in chosen if chosen[key] != before.get(key)} <= {"mechanism", "attributes"}
    report = tmp_path / "measured.json"
    options = ["--mechanisms", chosen["mechanism"]["name"], *FEW, "-o", tmp_path / "e.html", "--json-file", report]
    run("evaluate", "-c", tmp_path / "best.yaml", *options, source)
    risk = json.loads(report.read_bytes())["measurements"][0]["risk"]
    assert max(risk["vulnerability"].values()) <= 0.9
    assert max(risk["rmse"].values()) <= 0.6
    assert "is recommended" in (tmp_path / "why.html").read_text()


def test_recommend_keeps_the_least_share_of_the_correlation(tmp_path, config, source):
    done = recommended(config, source, tmp_path, "--min-correlation", "0.5", "--mechanisms", "pram")
    assert "2 of 4 settings measured meet the limits (at least 0.5 of the correlation kept)" in " ".join(
        done.stdout.split()
    )
    report = tmp_path / "measured.json"
    options = ["--mechanisms", "pram", *FEW, "-o", tmp_path / "e.html", "--json-file", report]
    run("evaluate", "-c", tmp_path / "best.yaml", *options, source)
    measured = json.loads(report.read_bytes())
    [pair] = measured["measurements"][0]["utility"]["pairs"]
    kept = 1.0 - pair["correlation_error"] / measured["statistics"]["correlation"][0][1]
    assert 0.5 <= kept < 0.8
    recommended(config, source, tmp_path, "--min-correlation", "0.8", "--mechanisms", "pram", code=3)


def test_recommend_draws_a_point_for_each_setting(tmp_path, config, source):
    recommended(config, source, tmp_path, "--max-rmse", "0.9", "--mechanisms", "pram")
    [plot] = re.findall(r"<svg.*?</svg>", (tmp_path / "why.html").read_text(), re.DOTALL)
    points = re.findall(r"<circle [^>]*><title>(.*?): RMSE (0\.\d+), vulnerability 0\.\d+", plot)
    assert sorted(label for label, _ in points) == [f"PRAM, retention = 0.{tenths}" for tenths in (3, 5, 7, 9)]
    assert len(set(points)) == len({figure for _, figure in points}) == 4
    assert "vulnerability</text>" in plot


def test_recommend_names_the_nearest_setting_if_none_meets_the_limits(tmp_path, config, source):
    limits = ["--max-rmse", "0", "--min-correlation", "1", "--max-vulnerability", "0"]
    done = recommended(config, source, tmp_path, *limits, "--mechanisms", "pram", code=3)
    assert "No setting of the 4 measured meets the limits" in done.stdout
    assert "The nearest is PRAM, retention = 0." in done.stdout.replace("\n", " ")
    assert not (tmp_path / "best.yaml").exists()


def test_recommend_needs_a_limit(tmp_path, config, source):
    assert "there is no limit" in recommended(config, source, tmp_path, code=2).output


@pytest.mark.exhaustive
def test_recommend_leaves_out_what_the_configuration_does_not_allow(tmp_path, config, source):
    amend(config, groups={"records": 4})
    options = ["--max-rmse", "1", "--mechanisms", "microaggregation"]
    assert "measured 2 of 2" in recommended(config, source, tmp_path, *options, code=0).output
    assert "k = 2" in (tmp_path / "best.yaml").read_text() or "k: 2" in (tmp_path / "best.yaml").read_text()


@pytest.mark.scheduled
def test_reproduce_prints_or_writes_the_tables(tmp_path):
    """Scheduled: another paper than that of ``test_reporting``."""
    done = CliRunner().invoke(main, ["reproduce", "2013"])
    assert "| x2 paranoia | 6.2" in done.stdout
    run("reproduce", "2013", "-o", tmp_path / "r.html")
    assert "<td>x2 paranoia</td>" in (tmp_path / "r.html").read_text()
