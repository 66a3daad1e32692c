"""A TCP forwarder on the loopback interface, which simulates network failures between clients and brokers.

It understands Kafka requests, and holds some back past the end of their connections. A request is a length of 4 bytes,
the API key and the version (2 bytes each), the correlation id (4 bytes), and the rest.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

LOOPBACK = "127.0.0.1"
CHUNK = 65_536

PRODUCE = 0
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
TXN_OFFSET_COMMIT = 28
OF_A_TRANSACTION = (END_TXN, TXN_OFFSET_COMMIT, PRODUCE, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN)

CORRELATION_BYTES = 4


class Forwarder:
    """Forwards ports, {from: to}, on its own thread while the ``with`` block runs.

    ``silence`` stops forwarding data, as a network that drops packets does. ``cut`` closes every connection, and every
    new one at once. ``mend`` ends both; data that ``silence`` held back is then forwarded.

    ``hold`` makes the next request of an API key late: it stays here, and its connection breaks, so that the client
    sends it again on another one. ``repeat``: it is also delivered at once, but its answer is lost. ``release``
    delivers the late requests, the last one first, each on a connection of its own, after all that the client has sent
    since. ``lose`` loses all further requests of a key.
    """

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ports = dict(ports)
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._closed = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="forwarder", daemon=True)
        self._wanted: tuple[int, bool] | None = None
        self._lost: int | None = None
        self._late: list[tuple[int, bytes]] = []
        self._holding = threading.Event()

    def __enter__(self) -> Forwarder:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(lambda: [server.close() for server in self._servers])
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def silence(self) -> None:
        self._call(self._flowing.clear)

    def cut(self) -> None:
        self._closed = True
        self._call(lambda: [writer.transport.abort() for writer in self._writers])

    def mend(self) -> None:
        self._closed = False
        self._call(self._flowing.set)

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
        return [self._run(self._deliver(target, frame)) for target, frame in reversed(late)]

    def _run(self, task: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(30)

    def _call(self, action: Callable[[], object]) -> None:
        async def call() -> None:
            action()

        self._run(call())

    async def _listen(self) -> None:
        for port, target in self._ports.items():
            self._servers.append(await asyncio.start_server(self._forwarding(target), LOOPBACK, port))

    def _forwarding(self, target: int) -> Callable[..., Any]:
        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.add(writer)
            if self._closed:
                return writer.transport.abort()
            try:
                there, back = await asyncio.open_connection(LOOPBACK, target)
            except OSError:
                return writer.transport.abort()
            self._writers.add(back)
            await asyncio.gather(self._send_requests(reader, back, writer, target), self._pump(there, writer))
            return None

        return forward

    async def _send_requests(
        self, reader: asyncio.StreamReader, there: asyncio.StreamWriter, client: asyncio.StreamWriter, target: int
    ) -> None:
        """Forward what a client sends to ``there``, the connection to the port ``target``."""
        try:
            while True:
                length = await reader.readexactly(4)
                frame = length + await reader.readexactly(int.from_bytes(length))
                await self._flowing.wait()
                (api_key,) = struct.unpack_from(">h", frame, 4)
                if api_key == self._lost:
                    self._holding.set()
                    continue
                held, repeat = self._wanted or (None, True)
                if api_key != held or repeat:
                    there.write(frame)
                    await there.drain()
                if api_key == held:
                    self._wanted = None
                    self._late.append((target, frame))
                    self._holding.set()
                    client.transport.abort()
                    break
        except (OSError, asyncio.IncompleteReadError):
            client.transport.abort()
        there.close()
        self._writers.discard(there)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(CHUNK):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            writer.transport.abort()
        else:
            writer.close()
        self._writers.discard(writer)

    async def _deliver(self, target: int, frame: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(LOOPBACK, target)
        writer.write(frame)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        writer.close()
        return answer[CORRELATION_BYTES:]
