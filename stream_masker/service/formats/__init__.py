"""Formats of record values and message keys other than JSON.

``wire_format`` has the formats as configured: the Confluent wire format is a schema id, then a value that the serdes of
confluent-kafka decode and encode (``serdes``) with a schema from a registry (``registry``).
"""
