"""Fuzz the codec, guided by the coverage of its Python code (Atheris).

``python tests/fuzz/run.py [--seconds N] [--target records|plans]``. Half of the time goes to each target. Inputs that
reach new code are kept in a temporary folder; ``--keep FOLDER`` names another one. The first difference or error ends
the run with an exit code other than 0, and its input is written to the current folder. The targets and the committed
corpus are in this folder. Needs the extras ``test`` and ``fuzz``.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TARGETS = {"records": "compare_record", "plans": "compare_plan"}
MAX_BYTES = {"records": 700, "plans": 4_000}
RANDOM_INPUTS = 100
INPUT_SECONDS = 60
"""The time after which one input counts as a hang."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="the time of the whole run")
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this target; may be repeated")
    parser.add_argument("--keep", type=Path, help="the folder for inputs that reach new code")
    parser.add_argument("--inside", choices=TARGETS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        return fuzz(given.inside, given.seconds, given.keep)
    targets = given.target or list(TARGETS)
    with tempfile.TemporaryDirectory() as folder:
        for target in targets:
            print(f"== fuzzing {target}", flush=True)
            run(target, given.seconds // len(targets), (given.keep or Path(folder)) / target)
    return None


def run(target: str, seconds: int, folder: Path) -> None:
    """Fuzz one target in a process of its own; exit with its code if it finds something."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [ROOT, ROOT / "tests", ROOT / "tests" / "support"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", __file__, "--inside", target, "--seconds", str(seconds)]
    done = subprocess.run([*command, "--keep", str(folder)], env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def fuzz(target: str, seconds: int, folder: Path) -> None:
    """Run libFuzzer in this process; it ends the process."""
    logging.disable(logging.CRITICAL)
    import atheris

    with atheris.instrument_imports(include=["stream_masker.pipeline"]):
        import targets
    check = getattr(targets, TARGETS[target])
    if target == "plans":
        write_random_inputs(folder)
    options = [f"-max_total_time={seconds}", f"-max_len={MAX_BYTES[target]}", f"-timeout={INPUT_SECONDS}"]
    corpora = [str(folder), *([str(targets.CORPUS)] if target == "records" else [])]
    dictionary = [f"-dict={HERE / 'json.dict'}"] if target == "records" else []
    one_input = check if target == "records" else check.hypothesis.fuzz_one_input
    atheris.Setup([sys.argv[0], *options, *dictionary, *corpora], one_input)
    atheris.Fuzz()


def write_random_inputs(folder: Path) -> None:
    """Write inputs of full length, which describe whole plans and documents; short ones describe empty plans."""
    for number in range(RANDOM_INPUTS):
        (folder / f"random-{number}").write_bytes(os.urandom(MAX_BYTES["plans"]))


if __name__ == "__main__":
    main()
