"""The mask worker: reads records from Kafka, masks them, and writes them in exactly-once transactions.

``run`` builds a worker from a configuration. ``worker`` is its session loop. A record passes ``source`` (the consumer),
``groups`` (micro-windows) and ``transactions`` (the producer). ``statistics`` finds the version to mask with.
"""
