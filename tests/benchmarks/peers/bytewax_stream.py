"""Bytewax: a dataflow without recovery, which writes without transactions."""

from __future__ import annotations

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main
from job import masked, stream

given = stream()
flow = Dataflow("peer")
read = kafka.input("read", flow, brokers=[given.bootstrap], topics=[given.source], batch_size=given.batch)
done = op.map("mask", read.oks, lambda message: KafkaSinkMessage(message.key, masked(message.value)))
kafka.output("write", done, brokers=[given.bootstrap], topic=given.target)
run_main(flow)
