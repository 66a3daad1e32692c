"""Semantic transport: a random map of records that keeps the distribution of the window, and a promise about each."""
