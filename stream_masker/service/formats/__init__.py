"""Formats of record values and message keys other than JSON.

``confluent`` is the Confluent wire format: a schema id, then a value that the serdes of confluent-kafka decode and
encode with a schema from a registry (``registry``). ``serdes`` and ``protobuf_serde`` have a class for each kind of
schema (``kinds``); ``avro_values`` converts between Avro's values and JSON. ``wire_format`` builds the format of a
configuration.
"""
