"""The decorators that compile kernels.

Nothing else in the package compiles functions. All kernels run without the interpreter lock, divide as NumPy does
(x / 0 is inf or nan) and are kept in the disk cache of ``core.kernels.disk_cache``. No result depends on the processor:
the compiler may neither change the order of additions nor fuse them with products. Sums that have to be fast are those
of ``core.kernels.simd``.

A kernel states its signature. numba ignores the annotations; a test compares them with every type that numba has
inferred. They are written in one way:

* ``int``: an integer of any width, except uint64; ``np.uint64``: exactly that;
* ``float``: float64; ``bool``;
* an alias of ``core.dtypes`` for an array: its element type and its number of dimensions;
* the class of a named tuple; ``tuple[...]`` for other tuples; ``None``.

A part is a function that only kernels call. Each kernel contains the code of its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Concatenate, NoReturn, ParamSpec, TypeVar, cast

import numpy as np
from numba import config, extending
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from stream_masker.core.kernels.disk_cache import KernelCache, claimed, readable_file

OPTIONS = {"nopython": True, "boundscheck": None, "nogil": True, "error_model": "numpy", "fastmath": False}
PART_OPTIONS = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class KernelDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A kernel that Python and other kernels call. ``suffix``: of the files of its compiled forms."""

    suffix: ClassVar[str] = ".kernel"

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, {}, {**OPTIONS, **options})
        self._cache = KernelCache(self)

    def compile(self, sig: Any) -> Any:
        """Load or compile the form for these argument types, unless this process has it."""
        with global_compiler_lock, claimed(readable_file(self._cache.path(sig, self.targetctx.codegen()))):
            return super().compile(sig)


class PartDispatcher(KernelDispatcher):
    """A part. Python cannot call it."""

    suffix: ClassVar[str] = ".part"

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, {**PART_OPTIONS, **options})

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise TypeError."""
        raise TypeError(f"{self.py_func.__module__}.{self.py_func.__qualname__} is a part, which only kernels call")


F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")

int32 = cast(Callable[[Any], int], np.int32)
int64 = cast(Callable[[Any], int], np.int64)
"""NumPy's int64, typed as the ``int`` that signatures use for integers of any width."""


def kernel(function: F) -> F:
    """Compile a kernel that Python or other kernels call."""
    return _compiled(function, KernelDispatcher)


def borrowing(function: F) -> F:
    """Compile a kernel that Python calls and that creates no array.

    Like a ``part``, it does not count references to the arrays that it receives, nor do its calls of parts.
    """
    return _compiled(function, KernelDispatcher, _nrt=False)


def part(function: F) -> F:
    """Compile a function that only kernels and parts call and that creates no array. Python cannot call it.

    It does not count references to the arrays that it receives. For most parts, counting would take several times as
    long as the part itself.
    """
    return _compiled(function, PartDispatcher)


def inlined(function: F) -> F:
    """Compile a part whose machine code is inserted at each call."""
    return _compiled(function, PartDispatcher, forceinline=True)


def intrinsic(function: Callable[Concatenate[Any, P], Any]) -> Callable[P, Any]:
    """Define a function for kernels that generates its own machine code (see ``numba.extending.intrinsic``).

    Kernels call it without its first parameter, the typing context.
    """
    generated: Callable[P, Any] = extending.intrinsic(function)
    return generated


def for_types(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Callable[P, T]:
    """Return the compiled form of a kernel for arguments of the types of these.

    A call takes a fraction of the time, because nothing looks at the types of its arguments: where they differ, it
    reads memory that is not theirs. The types of arrays include their element type, dimensions and contiguity.
    """
    if config.DISABLE_JIT:
        return function
    kernel = cast(Any, function)
    return cast(Callable[P, T], kernel.compile(tuple(map(kernel.typeof_pyval, arguments))))


def _compiled(function: F, dispatcher: type[KernelDispatcher], **options: Any) -> F:
    return function if config.DISABLE_JIT else cast(F, dispatcher(function, options))
