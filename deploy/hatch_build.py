"""The hook that compiles what a first use needs into a wheel; see ``docs/decisions/compiled-at-install.md``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "STREAM_MASKER_BUILD_KERNELS"
SHIPPED = "stream_masker/compiled"


class ShippedFiles(BuildHookInterface):  # type: ignore[type-arg]
    """Compile the named ontologies, and the kernels for the processor of this machine, and add them to the wheel.

    ``STREAM_MASKER_BUILD_KERNELS=0`` leaves the kernels out, and an editable installation both. What does not compile
    is left out with a warning: the first use compiles what the installation does not contain.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into a folder of the interpreter in ``build/compiled``, where a later build of the same sources finds
        the kernels, and two interpreters can build at the same time."""
        if version == "editable":
            return
        kernels = os.environ.get(SWITCH) != "0"
        if kernels:
            self.app.display_info(f"compiling kernels, for about a minute; {SWITCH}=0 leaves them for the first use")
        folder = Path(self.root) / "build" / "compiled" / str(sys.implementation.cache_tag)
        if not self._compiled(folder, [] if kernels else ["ontologies"]):
            self.app.display_warning("not everything compiled; the first use compiles the rest")
            kernels = False
        for file in folder.glob("*" if kernels else "*.ontology"):
            build_data["force_include"][str(file)] = f"{SHIPPED}/{file.name}"
        if kernels:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def _compiled(self, folder: Path, rehearsals: list[str]) -> bool:
        command = [sys.executable, "-m", "stream_masker.service.demo.shipped", str(folder), *rehearsals]
        path = os.pathsep.join(filter(None, (self.root, os.environ.get("PYTHONPATH"))))
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False)  # noqa: S603 - our own module
        return done.returncode == 0
