"""SNOMED CT in Release Format 2 (RF2): the snapshots of concepts, descriptions and relationships.

``files`` finds the snapshot files in a folder or an archive. ``release`` reads them into a draft, with labels and
synonyms. It uses ``table`` for the tab-separated files.
"""
