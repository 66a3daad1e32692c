"""The JSON messages between the processes: ``messages``, split into ``chunks`` where they are too large."""
