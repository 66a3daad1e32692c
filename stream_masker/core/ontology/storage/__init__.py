"""Compiled ontologies on disk.

``compiled`` writes an ontology to one file of arrays and maps it again. ``cache`` keeps one such file for each parsed
source, so that a source is parsed only once.
"""
