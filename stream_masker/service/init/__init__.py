"""``config init``: a proposal of a configuration for a sample of events.

``fields`` reads the events and decides what each field is; ``proposal`` writes the configuration, and tries it.
"""
