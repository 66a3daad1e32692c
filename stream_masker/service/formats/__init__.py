"""Formats of record values and message keys other than JSON.

``wire_format`` has the Confluent wire format: a schema id, then a value that the serdes of confluent-kafka decode and
encode with a schema from a registry (``registry``). ``serdes`` has a class for each kind of schema; ``avro_values``
converts between Avro's values and JSON.
"""
