"""The demonstration: the processes of the service on generated events, with an outbreak halfway.

``processes`` has the broker and the processes, and starts the worker. ``run`` is imported while it starts, directs
the demonstration, and shows what happens.
"""
