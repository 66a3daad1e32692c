"""What an installation contains in compiled form: the named ontologies, and the kernels of a first use.

``python -m stream_masker.service.demo.shipped FOLDER`` fills a folder with them, and ``FOLDER ontologies`` with the
ontologies and the kernels that parse them. The build of a wheel runs it (``deploy/hatch_build.py``).
``core.ontology.sources`` and ``core.kernels.disk_cache`` read the files from the installed package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from stream_masker.core.kernels.disk_cache import CLAIMS_FILE
from stream_masker.core.kernels.fingerprint import build_digest
from stream_masker.core.mechanisms.noise import SemanticNoise
from stream_masker.core.ontology import Ontology
from stream_masker.core.ontology.compiled import COMPILED_SUFFIX
from stream_masker.core.ontology.sources import NAMED
from stream_masker.service.demo.environment import prepare_demo
from stream_masker.service.runtime.warmup import warm_up

EXAMPLE_CODES = (("I21.4", "I10"), ("E11.9", "I10"), ("J18.9", "J44.1"), ("I50.9", "I10"))
EXAMPLE_REPEATS = 50
REHEARSE = "import sys; from stream_masker.service.demo.shipped import REHEARSALS; REHEARSALS[sys.argv[1]]()"


def rehearse_ontologies() -> None:
    """Load every ontology that has a name, which compiles it into the cache folder."""
    for name in NAMED:
        Ontology.load(name)


def rehearse_service() -> None:
    """Run the work of the demonstration's worker and calibrator once."""
    with tempfile.TemporaryDirectory() as folder:
        warm_up(prepare_demo(Path(folder), bootstrap_servers="unused:9092", records=1, port=0).configuration)


def rehearse_library() -> None:
    """Calibrate and mask once with semantic noise, as the first example of records in Python does."""
    taxonomy = Ontology.load("icd10cm").taxonomy()
    noise = SemanticNoise({"principal": taxonomy, "secondary": taxonomy}, alpha=0.3, seed=b"sixteen bytes or more")
    for principal, secondary in EXAMPLE_CODES * EXAMPLE_REPEATS:
        noise.learn_one({"principal": principal, "secondary": secondary})
    noise.calibrate()
    noise.mask_one({"principal": "I21.4", "secondary": "E11.9"}, key=b"a key")


REHEARSALS: Mapping[str, Callable[[], None]] = {
    "ontologies": rehearse_ontologies,
    "service": rehearse_service,
    "library": rehearse_library,
}
"""What is rehearsed, each in a process of its own. The processes share ontologies and kernels that several need."""


def run_rehearsals(folder: Path, names: Iterable[str] = REHEARSALS) -> int:
    """Run rehearsals at the same time, with ``folder`` as the cache of all; returns the number that failed.

    Kernels are removed first if another build, or the build of another processor, wrote them. Ontologies always are.
    """
    stamp = folder / "build"
    if not stamp.exists() or stamp.read_text() != build_digest():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        stamp.write_text(build_digest())
    _remove(folder.glob(f"*{COMPILED_SUFFIX}"))
    cache = str(folder.resolve())
    environment = {**os.environ, "STREAM_MASKER_CACHE": cache, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", REHEARSE]
    running = [subprocess.Popen([*command, name], env=environment) for name in names]  # noqa: S603 - this module
    failed = sum(process.wait() != 0 for process in running)
    _remove([folder / CLAIMS_FILE, *folder.glob("*.lock")])
    return failed


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


if __name__ == "__main__":
    _, given, *rehearsals = sys.argv
    sys.exit(run_rehearsals(Path(given), rehearsals or REHEARSALS))
