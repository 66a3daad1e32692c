"""A TCP forwarder on the loopback interface, which simulates network failures between clients and brokers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

LOOPBACK = "127.0.0.1"
CHUNK = 65_536


class Forwarder:
    """Forwards ports, {from: to}, on its own thread while the ``with`` block runs.

    ``silence`` stops forwarding data, as a network that drops packets does. ``cut`` closes every connection, and every
    new one at once. ``mend`` ends both; data that ``silence`` held back is then forwarded.
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

    def __enter__(self) -> Forwarder:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def silence(self) -> None:
        self._call(self._flowing.clear)

    def cut(self) -> None:
        self._call(self._cut)

    def mend(self) -> None:
        self._call(self._mend)

    def _call(self, action: Callable[[], object]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (action(), done.set()))
        assert done.wait(30)

    def _cut(self) -> None:
        self._closed = True
        for writer in self._writers:
            writer.transport.abort()

    def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._cut()

    def _mend(self) -> None:
        self._closed = False
        self._flowing.set()

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
        await self._pump(reader, there)

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
