"""A calibrated lot as a graph for machines without torch, and the runner of such graphs."""
