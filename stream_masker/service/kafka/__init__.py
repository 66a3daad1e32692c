"""Access to Kafka, shared by all processes.

``connections`` creates librdkafka consumers and producers from properties. ``clients`` derives the properties from the
configuration and connects kafka-python's clients, and ``tls`` derives their TLS contexts. ``topics`` checks and creates
the topics, ``topic_reader`` reads single partitions, and ``transactional_producer`` writes batches in transactions.
"""
