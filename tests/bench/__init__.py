"""Figures of the running product, beside the direct call to the simulator."""
