"""The disk cache of compiled kernels: machine code from other sources is never loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.exhaustive

KERNELS = '''
import numpy as np

from stream_masker.core.kernels.jit import kernel

from tiny.constants import OFFSETS, ROW, STEP, Limits
from tiny.machine.intrinsics import answer
from tiny.parts import scaled

LIMITS = Limits(1, 2)


@kernel
def total(values, bounds):
    """The sum of scaled values."""
    row = np.zeros(1, ROW)
    row[0].depth = 7
    result = bounds.first + row[0].links
    for value in values:
        result += scaled(value) + STEP
    return result + OFFSETS[0] + LIMITS.low + answer()
'''
PARTS = '''
from stream_masker.core.kernels.jit import inlined, part


@inlined
def factor():
    return 10


@part
def scaled(value):
    """A value, scaled."""
    return factor() * value
'''
CONSTANTS = """
from typing import NamedTuple

import numpy as np

STEP = 0
OFFSETS = np.array([0, 1])
ROW = np.dtype([("links", np.int64), ("depth", np.int64)])


class Limits(NamedTuple):
    low: int
    high: int


class Bounds(NamedTuple):
    first: int
    last: int
"""
INTRINSICS = """
from numba import types
from stream_masker.core.kernels.jit import intrinsic

from tiny.machine.answers import ANSWER


@intrinsic
def answer(_typing):
    def generate(context, builder, signature, arguments):
        return context.get_constant(types.int64, ANSWER)

    return types.int64(), generate
"""
SOURCES = {
    "__init__": "",
    "kernels": KERNELS,
    "parts": PARTS,
    "constants": CONSTANTS,
    "machine/__init__": "",
    "machine/intrinsics": INTRINSICS,
    "machine/answers": "ANSWER = 100\n",
}
CALL = """
import numpy as np
from tiny.constants import Bounds
from tiny.kernels import total
print(total(np.array([1, 2]), Bounds(0, 3)), sum(total.stats.cache_misses.values()))
"""
READ_ONLY = """
import errno, os
from pathlib import Path

def refuse(*_, **__):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))

opened = Path.open
Path.open = lambda path, mode="r", *rest, **options: (opened if "r" in mode else refuse)(path, mode, *rest, **options)
Path.replace = Path.unlink = refuse
created = os.open
os.open = lambda path, flags, *rest: (refuse if flags & os.O_CREAT else created)(path, flags, *rest)
"""
"""What the cache sees of a read-only file system; file permissions do not restrict the user root."""

REPORTED = """
import atexit
from pathlib import Path
from stream_masker.core.kernels.disk_cache import compilations_reported

names = []
reported = compilations_reported(names.append)
reported.__enter__()
atexit.register(lambda: Path({names!r}).write_text("\\n".join(names)))
"""

Call = Callable[..., tuple[int, int]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and, after one call of its kernel, with the compiled kernels."""
    folder = tmp_path_factory.mktemp("original")
    (folder / "tiny" / "machine").mkdir(parents=True)
    for name, text in SOURCES.items():
        (folder / "tiny" / f"{name}.py").write_text(text)
    assert call_in_new_process(folder) == (131, 1)
    return folder


@pytest.fixture
def package(tmp_path: Path, original: Path) -> Path:
    """A package with a kernel whose parts, constants and intrinsics are in other files."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return tmp_path / "tiny"


@pytest.fixture
def compiled(package: Path) -> Path:
    """The folder of the compiled kernels, which contains those of the package."""
    return package.parent / "compiled"


@pytest.fixture
def call(package: Path) -> Call:
    """Calls the kernel in a new process, after other code; returns its result and how many times it was compiled."""

    def run(before: str = "") -> tuple[int, int]:
        return call_in_new_process(package.parent, before)

    return run


def call_in_new_process(folder: Path, before: str = "") -> tuple[int, int]:
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder / "compiled")}
    command = [sys.executable, "-B", "-c", before + CALL]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    result, compilations = map(int, done.stdout.split())
    return result, compilations


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_unchanged_sources_are_loaded_from_disk(call, compiled):
    assert len(list(compiled.glob("total-*.kernel"))) == 1
    assert call() == (131, 0)


def rare(*given: object) -> Any:
    """A case of the scheduled run, which is like a case of every run: the same file or part of the key, changed."""
    return pytest.param(*given, marks=pytest.mark.scheduled)


@pytest.mark.parametrize(
    ("name", "old", "new", "result"),
    [
        ("parts", "return 10", "return 20", 161),
        rare("parts", "factor() * value", "factor() - value", 118),
        ("constants", "STEP = 0", "STEP = 1", 133),
        rare("constants", "[0, 1]", "[5, 1]", 136),
        rare("constants", 'np.int64), ("depth"', 'np.int32), ("depth"', 131),
        ("constants", "low: int\n    high: int", "high: int\n    low: int", 132),
        rare("constants", "first: int\n    last: int", "last: int\n    first: int", 134),
        ("machine/answers", "100", "200", 231),
        rare("kernels", "result = bounds.first", "result = 7", 138),
        ("parts", "@part\n", "@inlined\n", 131),
    ],
)
def test_a_semantic_change_in_any_file_recompiles_the_kernel(package, call, name, old, new, result):
    edit(package / f"{name}.py", old, new)
    assert call() == (result, 1)


@pytest.mark.parametrize(
    "changed",
    [
        "import numba; numba.__version__ = '0.0'",
        rare("import llvmlite; llvmlite.__version__ = '0.0'"),
        rare("import sys; sys.implementation.cache_tag = 'cpython-0'"),
        "import os; os.environ['NUMBA_CPU_NAME'] = 'x86-64'",
        rare("import os; os.environ['NUMBA_CPU_FEATURES'] = '+sse2'"),
        rare("import os; os.environ['NUMBA_OPT'] = '1'"),
        rare("import os; os.environ['NUMBA_LOOP_VECTORIZE'] = '0'"),
        rare("import os; os.environ['NUMBA_BOUNDSCHECK'] = '1'"),
    ],
)
def test_another_compiler_processor_or_option_recompiles_the_kernel(call, changed):
    assert call(changed + "\n") == (131, 1)


def test_a_new_modification_time_compiles_nothing(package, call):
    for file in package.glob("*.py"):
        os.utime(file, (1, 1))
    assert call() == (131, 0)


def test_a_new_docstring_or_comment_in_another_file_compiles_nothing(package, call):
    edit(package / "parts.py", "A value, scaled.", "A scaled value.")
    edit(package / "parts.py", "@part", "# a part\n@part")
    assert call() == (131, 0)


def test_compilations_are_reported_by_name(package, call):
    edit(package / "parts.py", "return 10", "return 20")
    names = package.parent / "names"
    assert call(REPORTED.format(names=str(names))) == (161, 1)
    assert names.read_text().splitlines() == ["kernels.total", "parts.scaled", "parts.factor"]


def test_processes_that_start_together_compile_a_kernel_once(call, compiled):
    shutil.rmtree(compiled)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(call) for _ in range(3)]
    assert sorted(future.result() for future in calls) == [(131, 0), (131, 0), (131, 1)]


def test_earlier_sources_are_still_loaded_from_disk(package, call):
    edit(package / "parts.py", "return 10", "return 20")
    assert call() == (161, 1)
    assert call() == (161, 0)
    edit(package / "parts.py", "return 20", "return 10")
    assert call() == (131, 0)


def test_checkouts_share_compiled_kernels(tmp_path, package, call):
    moved = tmp_path / "elsewhere" / "tiny"
    moved.parent.mkdir()
    package.rename(moved)
    assert call(f"import sys; sys.path.insert(0, {str(moved.parent)!r})\n") == (131, 0)


SHIPPED = """
from pathlib import Path
from stream_masker.core.kernels import disk_cache

disk_cache.SHIPPED = Path({shipped!r})
"""
"""Another folder for the kernels that the installation contains."""


def test_a_kernel_of_the_installation_serves_where_the_cache_has_none(package, call, compiled):
    shipped = compiled.rename(package.parent / "shipped")
    assert call(SHIPPED.format(shipped=str(shipped))) == (131, 0)
    assert not compiled.exists()


def test_a_kernel_of_other_sources_in_the_installation_is_not_loaded(package, call, compiled):
    shipped = compiled.rename(package.parent / "shipped")
    edit(package / "parts.py", "return 10", "return 20")
    assert call(SHIPPED.format(shipped=str(shipped))) == (161, 1)
    assert call(SHIPPED.format(shipped=str(shipped))) == (161, 0)


def test_a_damaged_kernel_of_the_installation_is_compiled_once(package, call, compiled):
    shipped = compiled.rename(package.parent / "shipped")
    (file,) = shipped.glob("total-*")
    file.write_bytes(b"no machine code")
    assert call(SHIPPED.format(shipped=str(shipped))) == (131, 1)
    assert call(SHIPPED.format(shipped=str(shipped))) == (131, 0)


@pytest.mark.parametrize("content", [rare(b""), b"no machine code"])
def test_a_damaged_file_counts_as_missing(call, compiled, content):
    (file,) = compiled.glob("total-*")
    file.write_bytes(content)
    assert call() == (131, 1)
    assert call() == (131, 0)


def test_a_kernel_that_other_users_can_write_is_not_loaded(call, compiled):
    (file,) = compiled.glob("total-*")
    for path, mode, result in ((file, 0o664, (131, 1)), (file, 0o644, (131, 0)), (compiled, 0o777, (131, 1))):
        path.chmod(mode)
        assert call() == result
        (file,) = compiled.glob("total-*")


@pytest.mark.parametrize("umask", [0o000, rare(0o077)])
def test_kernels_that_are_kept_can_be_loaded_whatever_the_umask_is(package, call, compiled, umask):
    shutil.rmtree(compiled)
    lax = f"import os; os.umask({umask})\n"
    assert [call(lax), call(lax)] == [(131, 1), (131, 0)]
    (file,) = compiled.glob("total-*")
    assert not (file.stat().st_mode | compiled.stat().st_mode) & 0o022


def test_a_read_only_folder_serves_for_reading(call):
    assert call(READ_ONLY) == (131, 0)


def test_a_kernel_that_a_read_only_folder_lacks_is_compiled_and_not_written(call, compiled):
    shutil.rmtree(compiled)
    compiled.mkdir()
    assert call(READ_ONLY) == (131, 1)
    assert list(compiled.iterdir()) == []
    assert call(READ_ONLY) == (131, 1)


def test_rejects_a_value_without_a_fingerprint(package, call):
    edit(package / "kernels.py", "LIMITS = Limits(1, 2)", "LIMITS = Limits(1, 2)\nresult = object()\n")
    edit(package / "kernels.py", "return result +", "return answer.result if False else result +")
    with pytest.raises(subprocess.CalledProcessError) as failure:
        call()
    assert "TypeError: tiny.kernels.total refers to <object object at" in failure.value.stderr
    assert ", which has no fingerprint" in failure.value.stderr
