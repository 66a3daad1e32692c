"""Synthetic events for the input topic: ``synthetic`` makes them of the codes that ``codes`` draws.

``publishing`` writes them to the topic or a file.
"""
