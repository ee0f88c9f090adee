"""What people may read about an error."""

from __future__ import annotations

import pytest

from sparcal.errors import DataError
from sparcal.server.sentences import DISK_FULL, sentence_of, without_paths


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("/srv/line 3/web/a.png must be readable.", "a.png must be readable."),
        ("Compare /srv/x/a.png; /srv/x/b.png.", "Compare a.png; b.png."),
        ("3 / 4 of them.", "3 / 4 of them."),
        ("A folder / was named.", "A folder / was named."),
    ],
)
def test_paths_are_cut_to_their_last_part(sentence, shown):
    assert without_paths(sentence, {"/srv/line 3/web/": ""}) == shown


def test_only_our_own_errors_and_the_systems_reason_are_shown():
    assert sentence_of(DataError("/srv/a.png is odd.")) == "a.png is odd."
    assert sentence_of(OSError(13, "Permission denied", "/srv/a")) == "The system refused: Permission denied."
    assert sentence_of(OSError(28, "No space left on device", "/srv/a")) == DISK_FULL
    assert sentence_of(RuntimeError("at /srv")) == "Something unexpected happened: the server's log says what."
