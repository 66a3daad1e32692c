"""The hook that gives a wheel the compiled kernels of a first use; see ``docs/decisions/kernels-at-install.md``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "STREAM_MASKER_BUILD_KERNELS"
SHIPPED = "stream_masker/compiled"


class ShippedKernels(BuildHookInterface):  # type: ignore[type-arg]
    """Compile the kernels for the processor of this machine, and add them to the wheel.

    ``STREAM_MASKER_BUILD_KERNELS=0`` leaves them out, as does an editable installation. Kernels that do not compile are
    left out with a warning: the first use compiles what the installation does not contain.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into ``build/kernels``, where a later build of the same sources finds them."""
        if version == "editable" or os.environ.get(SWITCH) == "0":
            return
        folder = Path(self.root) / "build" / "kernels"
        self.app.display_info(f"compiling kernels, for about a minute; {SWITCH}=0 leaves them for the first use")
        command = [sys.executable, "-m", "stream_masker.service.demo.shipped_kernels", str(folder)]
        path = os.pathsep.join(filter(None, (self.root, os.environ.get("PYTHONPATH"))))
        if subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode:  # noqa: S603 - our own module
            self.app.display_warning("the kernels did not compile; the first use compiles them")
            return
        build_data["force_include"][str(folder)] = SHIPPED
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
