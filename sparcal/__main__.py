"""What `sparcal`, `sparcal-line` and `python -m sparcal` start: the process is made ready, then a command line is loaded.

Loading it takes longer than a hasty Ctrl-C, so this module imports nothing of ours before it can answer one.
"""

import os
import signal
import sys


def main() -> None:
    """Run `sparcal`."""
    _run("sparcal.cli")


def line() -> None:
    """Run `sparcal-line`."""
    _run("sparcal.cli.line")


def _run(module: str) -> None:
    try:
        _open_streams()
        from importlib import import_module

        import_module(module).main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    finally:
        # Python still waits for threads: a further Ctrl-C ends that, without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _open_streams() -> None:
    """Put the null device where the caller closed a standard stream.

    Otherwise the next file that is opened gets the stream's number, and whoever prints would print into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))  # noqa: SIM115 for the whole process


if __name__ == "__main__":
    main()
