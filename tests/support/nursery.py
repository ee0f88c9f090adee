"""A process that has imported everything and forks a child for each command, so that tests can kill commands cheaply.

Reads one JSON list of words per line, answers with the child's process id, waits for it, and answers with its exit code,
negative for a signal.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    import timm  # noqa: F401
    import torch

    import sparcal.station.judged_folder
    import sparcal.station.station
    from sparcal.cli import run

    torch.set_num_threads(1)
    assert sparcal.station.judged_folder
    assert sparcal.station.station
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    print("ready", file=answers)
    for line in sys.stdin:
        words = json.loads(line)
        child = os.fork()
        if child == 0:
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            os._exit(run(words))
        print(child, file=answers)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers)


if __name__ == "__main__":
    main()
