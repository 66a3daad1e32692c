"""Semantic transport: a random map of records that keeps the law of the window, with a promise about every record."""
