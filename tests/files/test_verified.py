"""A file is used only as it was written."""

from __future__ import annotations

import pytest

from sparcal.errors import ArtifactError
from sparcal.files.hashing import file_digest
from sparcal.files.verified import FIT_AGAIN, verified


def test_what_is_whole_is_used_and_nothing_else(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"whole")
    digest = file_digest(path)
    assert verified(path, digest, remedy=FIT_AGAIN) == path
    with pytest.raises(ArtifactError, match="got a missing or changed file: restore it from a copy, or fit again"):
        verified(path, None, remedy=FIT_AGAIN)
    path.write_bytes(b"wholf")
    with pytest.raises(ArtifactError, match="expected to be as it was written"):
        verified(path, digest, remedy=FIT_AGAIN)
    path.unlink()
    with pytest.raises(ArtifactError, match="got a missing or changed file"):
        verified(path, digest, remedy=FIT_AGAIN)
