"""The JSON messages on the service's own topics.

``messages`` encodes and decodes calibration blocks, statistics versions, drift reports and rejections; ``fields`` reads
JSON fields with precise errors; ``chunks`` splits statistics messages that exceed the message size limit.
"""
