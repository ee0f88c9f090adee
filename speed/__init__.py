"""Speed and memory of every hot path against its peer, in one run: `make speed`, or `python -m speed NAME`."""
