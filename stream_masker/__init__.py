"""stream-masker: semantic noise for nominal health data in Kafka."""

__version__ = "0.1.0"
