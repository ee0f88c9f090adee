"""Speed and memory of every hot path against its peer, in one run: `make bench`, or `python -m benchmarks NAME`."""
