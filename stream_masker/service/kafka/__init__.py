"""Access to Kafka, shared by all processes.

``clients`` makes librdkafka's clients from the configuration, and ``errors`` explains their errors. ``reader`` reads
single partitions. ``topics`` checks and creates the topics by kafka-python.
"""
