"""The demonstration: the processes of the service on generated events, with an outbreak halfway.

``run`` directs it and shows what happens; ``processes`` has the broker and the processes.
"""
