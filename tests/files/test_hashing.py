"""Digests against hashlib, and what must tell two things apart."""

from __future__ import annotations

import hashlib

from sparcal.files.hashing import file_digest, text_digest, words_digest


def test_a_file_is_known_by_its_content(tmp_path):
    content = bytes(range(256)) * 20_000
    (tmp_path / "a").write_bytes(content)
    assert file_digest(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_a_damaged_file_name_has_a_digest_too():
    assert text_digest("ü") == hashlib.sha256("ü".encode()).hexdigest()
    assert text_digest("\udcff") != text_digest("?")


def test_words_are_not_run_together():
    assert words_digest(["a", "b"]) != words_digest(["ab"])
    assert words_digest(iter(["a", "b"])) == words_digest(["a", "b"])
