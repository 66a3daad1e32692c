"""Faust: an agent that acknowledges each event, without transactions."""

from __future__ import annotations

import sys
import tempfile

import faust
from job import masked, stream

given = stream()
app = faust.App(
    "peer",
    broker=f"kafka://{given.bootstrap}",
    datadir=tempfile.mkdtemp(),
    store="memory://",
    topic_disable_leader=True,
    web_enabled=False,
)
app.conf.consumer_max_fetch_size = 8 << 20
source, target = (
    app.topic(name, value_serializer="raw", key_serializer="raw") for name in (given.source, given.target)
)


@app.agent(source)
async def masks(events):
    async for event in events.events():
        await target.send(key=event.key, value=masked(event.value), partition=event.message.partition)


app.finalize()
sys.argv = ["peer", "worker", "-l", "error"]
app.main()
