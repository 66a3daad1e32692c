"""The mask worker: reads records from Kafka, masks them, and writes them in exactly-once transactions.

``run`` builds a worker from a configuration. ``loop`` is its main loop, a thin shell around the state machine in
``states``. The loop's components:

* Input: ``partition_source`` reads the assigned partitions; ``batcher`` ends a batch.
* Masking: ``batch`` holds messages by partition, masks them, and writes the results to a transaction;
  ``statistics_consumer`` reads the published statistics and activates the newest version that fits.
* Transactions: ``commit_pipeline`` alternates two producers, so that a batch is written while the one before commits.
* Threads: ``background`` runs blocking work while the main thread polls the group.
* Metrics and readiness: ``report``.

``topic_checks`` checks the topics before the start; ``client_properties`` derives the properties of the Kafka clients.
"""
