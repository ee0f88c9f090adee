"""`python -m sparcal`: the command line."""

from sparcal.cli import main

main()
