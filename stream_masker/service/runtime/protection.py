"""Protection of the secrets in a process's memory: no core dumps, and no access for other processes of the same user.

Linux shows the memory, the environment and the open files of a process to every process of the same user, below /proc
and by ptrace, unless the process is not dumpable (prctl(2), PR_SET_DUMPABLE). The administrator can still read them.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def protect_process() -> None:
    """Forbid core dumps of this process, and on Linux the access of other processes to its memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
