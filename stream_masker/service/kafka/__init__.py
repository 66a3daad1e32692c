"""Access to Kafka, shared by all processes.

``connections`` creates librdkafka consumers and producers from properties. ``clients`` derives the properties from the
configuration and connects kafka-python's clients. ``names`` has the names of groups and transactional ids, and ``acls``
the access that they and the topics need. ``oauth`` obtains tokens and ``tls`` makes TLS contexts for clients that do
not use librdkafka. ``topics`` checks and creates the topics, ``topic_reader`` reads single partitions, and
``transactional_producer`` writes batches in transactions.
"""
