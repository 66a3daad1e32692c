"""Files without a broker: masking and calibration of lines and tables, and groups."""
