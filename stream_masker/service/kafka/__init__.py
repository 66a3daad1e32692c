"""Access to Kafka, shared by all processes.

``clients`` makes librdkafka's clients from the configuration, and ``failures`` explains their errors. ``names`` has the
names of groups and transactional ids, and the access that they and the topics need. ``topics`` checks and creates the
topics by kafka-python, ``topic_reader`` reads single partitions, ``messages`` has what is read, and ``credentials`` the
TLS contexts and passwords of the clients that do not use librdkafka.
"""
