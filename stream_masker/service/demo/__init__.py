"""The demonstration: the processes of the service on generated events, with an outbreak halfway.

``run`` directs it, ``processes`` has the broker and the processes, and ``view`` shows what happens.
"""
