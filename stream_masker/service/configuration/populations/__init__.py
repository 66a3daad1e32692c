"""Populations: input topics with attributes of their own, as sections that differ from those of the file itself."""
