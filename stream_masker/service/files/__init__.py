"""Files of events and results: inputs recognised by their content, and outputs that appear complete or not at all."""
