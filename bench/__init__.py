"""What matchbox costs, measured. `python -m bench.streams`, `python -m bench.spine`."""
