"""Access to Kafka, shared by all processes.

``clients`` makes librdkafka's clients from the configuration, and ``errors`` explains their errors. ``reader`` reads
single partitions. ``access`` has the names of groups and transactional ids.
``topics`` checks and creates the topics by kafka-python.
"""
