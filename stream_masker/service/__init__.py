"""The processes of the service: everything that talks to Kafka, files, the network and the operating system.

``worker`` masks the input topic and ``calibrator`` computes the statistics; they are separate processes and share only
``configuration``, ``kafka`` (clients and topics) and ``observability`` (metrics, health, logs). ``masking`` builds the
objects that mask from a configuration; ``files`` masks files without a broker; ``audit`` verifies masked records.
``events`` publishes synthetic events, and ``demo`` runs everything together. ``process`` holds
process-level helpers: garbage collection, shutdown. The commands in ``stream_masker.cli`` call these modules.
"""
