"""A forwarder that understands Kafka requests: it holds some back past the end of their connections.

A request is a length of 4 bytes, the API key and the version (2 bytes each), the correlation id (4 bytes), and the
rest.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Mapping

from forwarder import LOOPBACK, Forwarder

PRODUCE = 0
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
TXN_OFFSET_COMMIT = 28

CORRELATION_BYTES = 4


class LateRequests(Forwarder):
    """Delays, repeats and reorders requests of one API key.

    ``hold`` makes the next request of a key late: it stays here, and its connection breaks, so that the client sends it
    again on another one. ``repeat``: it is also delivered at once, but its answer is lost. ``release`` delivers the
    late requests, the last one first, each on a connection of its own, after all that the client has sent since.
    ``lose`` loses all further requests of a key.
    """

    def __init__(self, ports: Mapping[int, int]) -> None:
        super().__init__(ports)
        self._wanted: tuple[int, bool] | None = None
        self._lost: int | None = None
        self._late: list[tuple[int, bytes]] = []
        self._holding = threading.Event()

    def hold(self, api_key: int, *, repeat: bool = False) -> None:
        self._holding.clear()
        self._wanted = (api_key, repeat)

    def lose(self, api_key: int) -> None:
        self._holding.clear()
        self._lost = api_key

    def holds(self, timeout: float) -> bool:
        """Return whether a request that was asked for comes within ``timeout`` seconds."""
        return self._holding.wait(timeout)

    def release(self) -> list[bytes]:
        """Deliver the late requests; return the answers of the brokers, without their correlation ids."""
        self._wanted = None
        late, self._late = self._late, []
        return [
            asyncio.run_coroutine_threadsafe(self._deliver(target, frame), self._loop).result(30)
            for target, frame in reversed(late)
        ]

    async def _send_requests(
        self, reader: asyncio.StreamReader, there: asyncio.StreamWriter, client: asyncio.StreamWriter, target: int
    ) -> None:
        try:
            while True:
                length = await reader.readexactly(4)
                frame = length + await reader.readexactly(int.from_bytes(length))
                await self._flowing.wait()
                if _api_key(frame) == self._lost:
                    self._holding.set()
                    continue
                if self._is_wanted(frame):
                    await self._keep(frame, there, target)
                    client.transport.abort()
                    break
                there.write(frame)
                await there.drain()
        except (OSError, asyncio.IncompleteReadError):
            client.transport.abort()
        there.close()
        self._writers.discard(there)

    def _is_wanted(self, frame: bytes) -> bool:
        return self._wanted is not None and _api_key(frame) == self._wanted[0]

    async def _keep(self, frame: bytes, there: asyncio.StreamWriter, target: int) -> None:
        assert self._wanted is not None
        repeat = self._wanted[1]
        self._wanted = None
        if repeat:
            there.write(frame)
            await there.drain()
        self._late.append((target, frame))
        self._holding.set()

    async def _deliver(self, target: int, frame: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(LOOPBACK, target)
        writer.write(frame)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        writer.close()
        return answer[CORRELATION_BYTES:]


def _api_key(frame: bytes) -> int:
    return int(struct.unpack_from(">h", frame, 4)[0])
