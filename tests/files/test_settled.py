"""A file is whole once two looks find it the same, whatever the clocks say."""

from __future__ import annotations

import os

from sparcal.files.settled import file_marks, settled


def test_only_what_two_looks_find_the_same_has_settled(tmp_path):
    grows, stays, touched = (tmp_path / name for name in ("grows", "stays", "touched"))
    for path in (grows, stays, touched):
        path.write_bytes(b"1")
        os.utime(path, (4e9, 4e9))  # a computer whose clock is far ahead
    earlier = file_marks([grows, stays, touched, tmp_path / "away"])
    assert settled(earlier, {}) == [], "one look tells nothing"
    grows.write_bytes(b"12")
    os.utime(touched, (5, 5))
    assert settled(file_marks([grows, stays, touched]), earlier) == [stays]
