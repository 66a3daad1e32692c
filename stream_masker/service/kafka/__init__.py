"""Access to Kafka, shared by all processes.

``clients`` creates librdkafka consumers and producers from the configuration. ``names`` has the names of groups and
transactional ids, and the access that they and the topics need. ``administration`` connects kafka-python, by which
``topics`` checks and creates the topics. ``credentials`` obtains tokens and makes TLS contexts for clients that do not
use librdkafka. ``topic_reader`` reads single partitions, and ``transactional_producer`` writes batches in transactions.
"""
