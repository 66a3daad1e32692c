"""Workers that end at the same committed offset of a partition, one after another."""
