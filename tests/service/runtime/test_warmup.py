"""``warm_up`` with every mechanism: it masks sample records and computes their statistics."""

from pathlib import Path
from typing import Any

import pytest
from support.small_configuration import write_small

from stream_masker.core.kernels import disk_cache
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.pipeline.wire.blocks import encode_block
from stream_masker.service.configuration import load_configuration
from stream_masker.service.runtime import warmup
from stream_masker.service.runtime.warmup import WARMUP_WINDOWS, warm_up, warm_up_once


@pytest.mark.usefixtures("few_groups")
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "mechanism", [*({"name": name} for name in MECHANISMS), {"name": "microaggregation", "k": 100}]
)
def test_warm_up_with_every_mechanism(tmp_path, mechanism):
    ready = warm_up(load_configuration(written(tmp_path, mechanism), {}))
    assert ready.name == mechanism["name"]
    assert ready.statistics.records == WARMUP_WINDOWS[-1]


EXAMPLES = Path(__file__).parents[3] / "examples"
TREE_ATTRIBUTES = {"a": "a", "b": "b[*].code", "c": "c"}


@pytest.mark.exhaustive
def test_three_attributes_and_an_array_start(tmp_path):
    path = written(tmp_path, {"name": "semantic_transport", "alpha": 0.3}, TREE_ATTRIBUTES)
    ready = warm_up(load_configuration(path, {}))
    assert ready.statistics.attributes == ("a", "b", "c")
    assert ready.statistics.model["maps"][0]["given"]


def test_sample_records_that_cannot_be_masked_stop_no_start(tmp_path, caplog):
    """Real events may be of enough patients."""
    path = written(tmp_path, {"name": "semantic_transport", "least": 1_000_000}, TREE_ATTRIBUTES)
    assert warm_up(load_configuration(path, {})).name == "semantic_transport"
    assert "sample records do not show which kernels this configuration needs" in caplog.text


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [pytest.param("flat", marks=pytest.mark.scheduled), "nested"])
def test_a_warm_up_computes_the_statistics_of_the_examples(monkeypatch, caplog, name):
    """Otherwise images would lack the kernels that these configurations need, also for blocks with noise keys.

    Scheduled: the example without an array.
    """
    sent = []
    monkeypatch.setattr(
        warmup, "encode_block", lambda *block, **of: sent.append(encode_block(*block, **of)) or sent[-1]
    )
    monkeypatch.setenv("STREAM_MASKER_SECRET", "0123456789abcdef")
    ready = warm_up(load_configuration(EXAMPLES / name / "stream-masker.yaml"))
    assert (ready.statistics.records, caplog.text) == (WARMUP_WINDOWS[-1], "")
    assert all(b'"slots"' in block for block in sent)


def test_a_second_start_with_the_same_settings_does_not_warm_up(tmp_path, monkeypatch):
    done = []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(warmup, "_rehearse", done.append)
    for name, times in (("semantic_noise", 1), ("semantic_noise", 1), ("pram", 2), ("semantic_noise", 2)):
        warm_up_once(load_configuration(written(tmp_path, {"name": name}), {}), print)
        assert len(done) == times
    monkeypatch.setattr(warmup, "build_digest", lambda: "another build")
    warm_up_once(load_configuration(written(tmp_path, {"name": "semantic_noise"}), {}), print)
    assert len(done) == 3


def test_a_note_of_the_installation_serves_as_one_of_the_cache_folder(tmp_path, monkeypatch):
    done = []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(warmup, "_rehearse", done.append)
    configuration = load_configuration(written(tmp_path, {"name": "semantic_noise"}), {})
    warm_up(configuration)
    monkeypatch.setattr(disk_cache, "SHIPPED", (tmp_path / "kernels").rename(tmp_path / "shipped"))
    warm_up_once(configuration, print)
    assert len(done) == 1


def test_a_start_warms_up_each_time_if_the_cache_folder_cannot_be_written(tmp_path, monkeypatch):
    done = []
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    monkeypatch.setattr(warmup, "_rehearse", done.append)
    for _ in range(2):
        warm_up_once(load_configuration(written(tmp_path, {"name": "semantic_noise"}), {}), print)
    assert len(done) == 2


def written(folder: Path, mechanism: dict[str, Any], attributes: dict[str, str] | None = None) -> Path:
    """The file of a configuration with a mechanism; ``attributes``: their paths."""
    rows = "".join(f"c{k},c{(k - 1) // 3}\n" for k in range(1, 60))
    paths = attributes or {"a": "a", "b": "b"}
    named = {name: {"path": path, "ontology": "small"} for name, path in paths.items()}
    secret = b"0123456789abcdef"
    return write_small(folder, rows=f"concept,parent\n{rows}", secret=secret, attributes=named, mechanism=mechanism)
