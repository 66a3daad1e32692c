"""The image as the chart runs it: it masks the real discharges, and compiles nothing in a pod."""

from __future__ import annotations

import gzip
import re
import secrets
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from containers import IMAGE, PODMAN, Pod, run_once, started, why_no_image
from kafka_records import Topics, read_all
from polling import wait
from rendered_chart import EXAMPLE, NEEDS_HELM, rendered
from support.data import data_file
from support.documentation import ROOT

pytestmark = [
    NEEDS_HELM,
    pytest.mark.exhaustive,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(why_no_image()), reason=why_no_image()),
]

DISCHARGES, MASKED = 101_766, 101_388
ROLES = ("input", "output", "rejected", "calibration", "statistics", "drift")
SIMULATED = 5_000


@pytest.fixture
def names(topics: Topics) -> dict[str, str]:
    return {role: topics.name(role) for role in ROLES}


def pod(folder: Path, kafka: str, names: dict[str, str], sections: dict[str, object]) -> Pod:
    """What the chart renders for a configuration whose ontologies and events are on a volume."""
    own = {"kafka": {"bootstrap_servers": kafka}, "topics": names, **sections}
    configuration = {**yaml.safe_load(EXAMPLE.read_text())["configuration"], **own}
    claim = data_file("icd9cm-diagnoses.csv.gz").parent
    values = {
        "configuration": configuration,
        "secret": {"existingSecret": "stream-masker"},
        "ontologies": {"existingClaim": "data"},
    }
    secret = {"stream-masker": {"secret": secrets.token_bytes(32)}}
    return Pod(folder, rendered(values, example=False), secret, claim)


def discharges() -> dict[str, object]:
    attribute = {"ontology": "icd", "unknown": "ancestor"}
    return {
        "ontologies": {"icd": {"source": "/ontologies/icd9cm-diagnoses.csv.gz"}},
        "attributes": {"principal": {"path": "diag_1", **attribute}, "secondary": {"path": "diag_2", **attribute}},
        "fields": {"keep": ["encounter_id"], "pseudonymize": ["patient_nbr"], "unlisted": "drop"},
        "noise_key": "position",
        "calibration": {"every_seconds": 2, "min_records": 1_000},
        "produce": {"key": "patient_nbr", "null_values": ["?"]},
    }


@pytest.fixture
def log_is_clean(tmp_path: Path) -> Iterator[None]:
    yield
    for log in tmp_path.glob("*.log"):
        text = log.read_text()
        assert "Traceback" not in text
        assert "250.83" not in text  # a frequent code


@pytest.mark.usefixtures("log_is_clean")
def test_worker_and_calibrator_mask_the_real_discharges(kafka: str, names: dict[str, str], tmp_path: Path) -> None:
    one = pod(tmp_path, kafka, names, discharges())
    run_once(one, "topics", "--partitions", "4", "--replication-factor", "1")
    said = run_once(one, "produce", "/ontologies/uci-discharges.csv.gz")
    assert f"{DISCHARGES:,}" in said
    with started(one, "calibrator"), started(one, "worker"):
        wait(lambda: ended(kafka, names) == DISCHARGES, "outcome of every record", 600)
    originals = {record.json["encounter_id"]: record for record in read_all(kafka, names["input"])}
    masked = read_all(kafka, names["output"])
    done = Counter(record.json["encounter_id"] for record in masked)
    assert max(done.values()) == 1
    assert (len(done), len(read_all(kafka, names["rejected"]))) == (MASKED, DISCHARGES - MASKED)
    changed = 0
    for record in masked:
        before = originals[record.json["encounter_id"]]
        assert record.json.keys() == {"encounter_id", "patient_nbr", "diag_1", "diag_2"}
        assert record.json["patient_nbr"] != before.json["patient_nbr"]
        assert (record.partition, record.timestamp) == (before.partition, before.timestamp)
        changed += any(record.json[name] != before.json[name] for name in ("diag_1", "diag_2"))
    assert changed > len(masked) / 2
    audited = [originals[record.json["encounter_id"]] for record in masked[::25_000]]
    run_once(one, "audit", *(word for event in audited for word in ("--offset", f"{event.partition}:{event.offset}")))


def ended(kafka: str, names: dict[str, str]) -> int:
    return sum(len(read_all(kafka, names[role])) for role in ("output", "rejected"))


@pytest.mark.usefixtures("log_is_clean")
def test_pods_with_the_ontology_of_the_image_compile_nothing(kafka: str, names: dict[str, str], tmp_path: Path) -> None:
    """The kernels and the ontology of the image serve a whole stream: a pod that compiled a kernel would report it.

    A compiled kernel cannot be kept, because the root file system is read-only.
    """
    one = pod(tmp_path, kafka, names, {})
    run_once(one, "topics", "--partitions", "4", "--replication-factor", "1")
    run_once(one, "produce", "--synthetic", str(SIMULATED), "--rate", "5000")
    with started(one, "calibrator") as calibrator, started(one, "worker") as worker:
        worker.wait_until_ready()
        wait(lambda: ended(kafka, names) == SIMULATED, "outcome of every record", 120)
        assert calibrator.status("/readyz") == 200
    logs = [calibrator.log.read_text(), worker.log.read_text()]
    assert ["statistics version 1" in log for log in logs] == [True, True]
    assert ["compiling" in log for log in logs] == [False, False]
    assert len(read_all(kafka, names["output"])) == SIMULATED


def test_the_image_is_not_root_and_has_nothing_of_the_build() -> None:
    """The image states its user, and its root file system has neither the sources nor the tools of the build."""
    shown = subprocess.run([*PODMAN, "image", "inspect", "--format={{.User}}", IMAGE], capture_output=True, check=True)
    assert shown.stdout.strip() == b"65532:65532"
    look = (
        "import os; print([p for p in ('/src', '/opt/stream-masker/bin/hatchling') if os.path.exists(p)], os.getuid())"
    )
    assert written_by("python3", "-c", look).strip() == b"[] 65532"


def test_a_change_of_the_code_pulls_at_most_20_megabytes() -> None:
    """The layer of the code is compressed here as registries store it."""
    layer = written_by("tar", "--create", "--directory=/opt", "application")
    sizes = [len(gzip.compress(layer, 6)) / 1e6, len(layer) / 1e6]
    assert sizes[0] < 20
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    (documented,) = re.findall(r"its kernels: (\d+) MB, which are (\d+) MB unpacked", re.sub(r"\s+", " ", page))
    assert sizes == pytest.approx([float(size) for size in documented], rel=0.1)


def written_by(program: str, *arguments: str) -> bytes:
    """Return what a program of the image writes to its standard output."""
    options = ("--rm", "--pull=never", "--network=host", f"--entrypoint={program}")
    done = subprocess.run([*PODMAN, "run", *options, IMAGE, *arguments], capture_output=True, check=True)
    return done.stdout
