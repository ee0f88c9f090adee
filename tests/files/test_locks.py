"""One writer at a time, also across processes, and a dead one frees the way."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sparcal.errors import BusyError
from sparcal.files.locks import exclusive


def test_a_second_holder_is_told_who_has_it(tmp_path):
    lock, sentence = tmp_path / "lock", f"got held by process {os.getpid()} for more than 0 s"
    with exclusive(lock), pytest.raises(BusyError, match=sentence), exclusive(lock, wait_s=0):
        pass
    with exclusive(lock, wait_s=0):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from sparcal.files.locks import exclusive\n"
        f"with exclusive(Path({str(tmp_path / 'lock')!r})): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BusyError, match=f"process {holder.pid}"), exclusive(tmp_path / "lock", wait_s=0):
            pass
        holder.kill()
        holder.wait()
    with exclusive(tmp_path / "lock", wait_s=1):
        pass
