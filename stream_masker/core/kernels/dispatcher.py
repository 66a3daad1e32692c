"""The dispatchers of kernels and parts: compilation by numba, with this package's disk cache.

A part is a function that only kernels contain. It is translated to LLVM's intermediate code and no further: machine
code of a part would never run, because each kernel compiles all its parts together with itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from stream_masker.core.kernels.claims import claimed
from stream_masker.core.kernels.disk_cache import KernelCache, readable_file
from stream_masker.core.kernels.part_library import PartLibrary

OPTIONS = {"nopython": True, "boundscheck": None, "nogil": True, "error_model": "numpy"}
PART_OPTIONS = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class _PartCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, with a library that has no machine code."""

    def compile_extra(self, func: Callable[..., Any]) -> CompileResult:
        self.state.library = PartLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


class _KernelCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, which also sets the environments of the parts that a kernel contains."""

    def compile_extra(self, func: Callable[..., Any]) -> CompileResult:
        compiled = super().compile_extra(func)
        for environment in compiled._find_referenced_environments():
            compiled.library.codegen.set_env(environment.env_name, environment)
        return compiled


class KernelDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A kernel that Python and other kernels call."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], compiler: Any = _KernelCompiler) -> None:
        super().__init__(function, {}, {**OPTIONS, **options}, compiler)
        self._cache = KernelCache(self, is_part=compiler is _PartCompiler)

    def compile(self, sig: Any) -> Any:
        """Load or compile the form for these argument types, unless this process has it."""
        with global_compiler_lock, claimed(readable_file(self._cache.path(sig, self.targetctx.codegen()))):
            return super().compile(sig)


class PartDispatcher(KernelDispatcher):
    """A part. Python cannot call it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, {**PART_OPTIONS, **options}, _PartCompiler)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise TypeError."""
        raise TypeError(f"{self.py_func.__module__}.{self.py_func.__qualname__} is a part, which only kernels call")
