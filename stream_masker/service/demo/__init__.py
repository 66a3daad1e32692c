"""The demonstration: all processes of the service on generated events, with a live view.

``run`` directs it: ``environment`` writes the configuration, ``embedded`` is the default broker, ``children`` are the
processes, ``watch`` reads the topics, and ``view`` shows what it read.
"""
