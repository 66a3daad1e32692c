"""The way of a statistics version, from the block that makes it due to the worker that masks with it."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

from calibration_session import SessionBench, block

import stream_masker
from stream_masker.pipeline.wire.chunks import split_message
from stream_masker.pipeline.wire.statistics import encode_statistics
from stream_masker.service.configuration.sections import SecretSource
from stream_masker.service.masking import Masking
from stream_masker.service.worker.statistics import ActiveStatistics, VersionBuffer

PACKAGE = str(Path(stream_masker.__file__).parent)
MOST_FILES = 86


def send_version(bench: SessionBench, number: int, buffer: VersionBuffer, active: ActiveStatistics) -> None:
    """Deliver two blocks, publish the version that is due, and activate it."""
    for k in (0, 10):
        bench.deliver(10 * number + k, block(20 * number + k))
    while bench.session.pending_windows:
        bench.session.publish_next()
    message = bench.publisher.published[-1].message
    for chunk in split_message(message.version, encode_statistics(message), 900_000):
        buffer.add(chunk.key, chunk.value)
    active.consider(buffer.take())
    assert active.version == message.version


def test_a_version_passes_few_files(bench: SessionBench, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret of the worker")
    secret.chmod(0o600)
    own = bench.components.configuration.model_copy(update={"secret": SecretSource(file=str(secret))})
    active, buffer = ActiveStatistics(Masking(own), None), VersionBuffer(bench.components.versions)
    found = set[str]()

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            found.add(frame.f_code.co_filename.removeprefix(PACKAGE))

    send_version(bench, 1, buffer, active)
    gc.collect()
    gc.disable()  # what other tests left is not on the way
    sys.setprofile(profile)
    try:
        send_version(bench, 3, buffer, active)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert active.version == 2
    assert len(found) <= MOST_FILES, sorted(found)
