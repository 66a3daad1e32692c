"""The compiled kernels that an installation contains: those of the demonstration and of a first use as a library.

``python -m stream_masker.service.demo.shipped_kernels FOLDER`` fills a folder with them. The build of a wheel runs it
(``deploy/hatch_build.py``), and ``core.kernels.disk_cache`` reads them from the installed package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from stream_masker.core.kernels.claims import CLAIMS_FILE
from stream_masker.core.kernels.fingerprint import build_digest
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
from stream_masker.core.ontology import Ontology
from stream_masker.service.demo.environment import prepare_demo
from stream_masker.service.runtime.warmup import warm_up

EXAMPLE_CODES = (("I21.4", "I10"), ("E11.9", "I10"), ("J18.9", "J44.1"), ("I50.9", "I10"))
EXAMPLE_REPEATS = 50


def rehearse_service() -> None:
    """Run the work of the demonstration's worker and calibrator once."""
    with tempfile.TemporaryDirectory() as folder:
        warm_up(prepare_demo(Path(folder), bootstrap_servers="unused:9092", records=1, port=0).configuration)


def rehearse_library() -> None:
    """Calibrate and mask once with semantic noise, as the first example of the Python API does."""
    taxonomy = Ontology.load("icd10cm").taxonomy()
    noise = SemanticNoise({"principal": taxonomy, "secondary": taxonomy}, alpha=0.3, seed=b"sixteen bytes or more")
    for principal, secondary in EXAMPLE_CODES * EXAMPLE_REPEATS:
        noise.learn_one({"principal": principal, "secondary": secondary})
    noise.calibrate()
    noise.mask_one({"principal": "I21.4", "secondary": "E11.9"}, key=b"a key")


REHEARSALS: Mapping[str, Callable[[], None]] = {"service": rehearse_service, "library": rehearse_library}
"""What is rehearsed, each in a process of its own. The processes share the kernels that both need."""


def run_rehearsals(folder: Path) -> int:
    """Run all rehearsals at the same time, with their kernels in ``folder``; returns the number that failed.

    The folder is emptied first if another build, or the build of another processor, filled it.
    """
    stamp = folder / "build"
    if not stamp.exists() or stamp.read_text() != build_digest():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        stamp.write_text(build_digest())
    command = [sys.executable, "-m", "stream_masker.service.demo.shipped_kernels"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder.resolve())}
    running = [subprocess.Popen([*command, str(folder), name], env=environment) for name in REHEARSALS]  # noqa: S603 - this module
    failed = sum(process.wait() != 0 for process in running)
    (folder / CLAIMS_FILE).unlink(missing_ok=True)
    return failed


if __name__ == "__main__":
    _, given, *names = sys.argv
    if not names:
        sys.exit(run_rehearsals(Path(given)))
    REHEARSALS[names[0]]()
