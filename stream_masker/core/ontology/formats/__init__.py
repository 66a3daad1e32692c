"""Readers of ontology file formats, one module for each.

Each reader returns a draft (``core.ontology.draft``): concepts, parents, labels and synonyms as the source gives them.
Readers check the syntax of the source; whether the links form a hierarchy is checked later, in ``core.ontology.data``.
To add a format, write a reader and list its suffix in ``core.ontology.sources``.
"""
