"""Formats of record values and message keys other than JSON."""
