"""The paper as a program: datasets, protocol, metrics, statistics, tables and figures."""
