"""Fuzz the codec against its literal twin, guided by the coverage of its Python code (Atheris).

``python tests/fuzz/run.py [--seconds N] [--keep FOLDER]``. Each input describes a plan and documents that match its
paths. Inputs that reach new code are kept in the folder, by default a temporary one. The first difference or error ends
the run with an exit code other than 0, and its input is written to the current folder. Needs the extras ``test`` and
``fuzz``.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MAX_BYTES = 4_000
RANDOM_INPUTS = 100
INPUT_SECONDS = 60
"""The time after which one input counts as a hang."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="the time of the run")
    parser.add_argument("--keep", type=Path, help="the folder for inputs that reach new code")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        return fuzz(given.seconds, given.keep)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(run(given.seconds, given.keep or Path(folder)))


def run(seconds: int, folder: Path) -> int:
    """Fuzz in a process of its own, whose exit code is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(RANDOM_INPUTS):  # of full length: short ones describe empty plans
        (folder / f"random-{number}").write_bytes(os.urandom(MAX_BYTES))
    paths = [ROOT, ROOT / "tests", ROOT / "tests" / "support"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", __file__, "--inside", "--seconds", str(seconds), "--keep", str(folder)]
    return subprocess.run(command, env=environment, check=False).returncode


def fuzz(seconds: int, folder: Path) -> None:
    """Run libFuzzer in this process; it ends the process."""
    logging.disable(logging.CRITICAL)
    import atheris

    with atheris.instrument_imports(include=["stream_masker.pipeline"]):
        import stream_masker.pipeline.masker  # noqa: F401 - instrumented before the target imports it
    check: Any = target()
    options = [f"-max_total_time={seconds}", f"-max_len={MAX_BYTES}", f"-timeout={INPUT_SECONDS}", str(folder)]
    atheris.Setup([sys.argv[0], *options], check.hypothesis.fuzz_one_input)
    atheris.Fuzz()


def target() -> Any:
    """Return the test that masks documents of any plan."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
    from support.documents import encoded
    from support.plans import documents, plans

    from stream_masker.errors import ConfigurationError
    from tests.pipeline.conftest import Bench
    from tests.pipeline.twin import check_record

    @settings(max_examples=1_000_000, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(plan=plans(), data=st.data())
    def compare_plan(plan: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject) -> None:
        attributes, more = plan
        try:
            bench = Bench(attributes, **more)
        except ConfigurationError:
            return
        for value in data.draw(st.lists(documents(bench.plan).flatmap(encoded), min_size=1, max_size=3)):
            check_record(bench, value)

    return compare_plan


if __name__ == "__main__":
    main()
