"""The JSON messages on the service's own topics.

``blocks``, ``statistics`` and ``reports`` encode and decode calibration blocks, statistics versions, and drift reports,
rejections and provenance events; ``fields`` reads JSON fields with precise errors; ``chunks`` splits statistics
messages that exceed the message size limit.
"""
