"""The demonstration: all processes of the service on generated events, with an outbreak halfway.

``run`` directs it. ``environment`` has the configuration, ``processes`` the broker and the processes, ``watch`` reads
the topics, and ``view`` shows what it read.
"""
