"""The demonstration: all processes of the service on generated events, with a live view.

``run`` directs it, with the default broker and the processes: ``environment`` writes the configuration, ``watch`` reads
the topics, and ``view`` shows what it read.
"""
