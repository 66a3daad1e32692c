"""The code of a part: LLVM intermediate code, which is linked into the machine code of kernels."""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult, compile_result


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """A library that is optimised, but not translated to machine code; other libraries link it.

    numba identifies a function by its entry point and the environment of that entry point. A part has no machine code
    and therefore a null entry point. Its environment is set when a kernel that contains it is compiled.
    """

    def finalize(self) -> None:
        """Link the parts that this one calls, and optimise. If only kernels were optimised, they would be 5 %
        slower."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> Any:
        """This library itself, which receives the environment of the entry point from numba."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: kernels that contain this part set the environment."""

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: a part has no entry points."""
        self._ensure_finalized()
        return 0

    def set_intermediate_code(self, code: bytes) -> None:
        """Load what ``serialize_using_object_code`` returned."""
        self._final_module = binding.parse_bitcode(code)
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, bytes]:
        """Return the name and the intermediate code; there is no object code."""
        self._ensure_finalized()
        return self.name, self._get_module_for_linking().as_bitcode()


def restored_part(
    context: Any,
    library_content: tuple[str, bytes],
    description: Any,
    environment: Any,
    signature: Any,
    object_mode: bool,
    lifted: Any,
    annotation: str,
    reload_init: Any,
    environments: Any,
) -> CompileResult:
    """Return a part from the values that ``CompileResult._reduce`` returned for it."""
    for load in reload_init:
        load()
    name, intermediate_code = library_content
    library = PartLibrary(context.codegen(), name)
    library.set_intermediate_code(intermediate_code)
    return compile_result(
        typing_context=context.typing_context,
        target_context=context,
        library=library,
        entry_point=context.get_executable(library, description, environment),
        fndesc=description,
        environment=environment,
        type_annotation=annotation,
        signature=signature,
        objectmode=object_mode,
        lifted=lifted,
        reload_init=reload_init,
        referenced_envs=environments,
    )
