"""Settings in layers: what they are (schema), how they are read (reading, layers)."""
