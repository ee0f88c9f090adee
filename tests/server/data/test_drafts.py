"""Drafts: marks, rooms for images, and what a calibration that ends badly leaves."""

from __future__ import annotations

import pytest

from sparcal.server.data import drafts, jobs
from sparcal.server.refusals import ConflictError, NotFoundError
from tests.support.unstaffed import SHA, add_image


def test_a_draft_is_open_again_when_its_calibration_ends_badly(database):
    with database.write() as connection:
        draft = drafts.create(connection, "L1")
        for number in range(2):
            sha = f"{number:064x}"
            add_image(connection, sha)
            drafts.add_image(connection, draft, sha, limit=9)
        shas = [f"{number:064x}" for number in range(2)]
        drafts.mark(connection, draft, shas)
        with pytest.raises(ConflictError, match="Other images were marked meanwhile"):
            drafts.start(connection, draft, shas[:1], {"operator": "M. Weber"})
        job = drafts.start(connection, draft, shas, {"operator": "M. Weber"})
        with pytest.raises(ConflictError, match="is calibrating, so this cannot be done"):
            drafts.start(connection, draft, shas, {"operator": "second browser"})
        jobs.cancel(connection, job)
        assert drafts.read_draft(connection, draft)["state"] == "open"
        jobs.retry(connection, job)
        assert drafts.read_draft(connection, draft)["state"] == "calibrating"


def test_marks_outside_2_to_32_or_of_strangers_are_refused(database):
    with database.write() as connection:
        draft = drafts.create(connection, "L1")
        for number in range(33):
            add_image(connection, f"{number:064x}")
            drafts.add_image(connection, draft, f"{number:064x}", limit=33)
        with pytest.raises(ConflictError, match="takes 2 to 32 good images, got 33: unmark some"):
            drafts.mark(connection, draft, [f"{number:064x}" for number in range(33)])
        with pytest.raises(NotFoundError, match="not a readable one of this draft"):
            drafts.mark(connection, draft, [SHA])
        with pytest.raises(ConflictError, match="takes 2 to 32 verified good images, got 0"):
            drafts.start(connection, draft, [], {})
        add_image(connection)
        with pytest.raises(ConflictError, match="holds at most 33 images"):
            drafts.add_image(connection, draft, SHA, limit=33)
        with pytest.raises(ConflictError, match="A draft for lot 'L1' is open already"):
            drafts.create(connection, "L1")


def test_a_draft_begins_with_what_is_left_of_an_earlier_ones_images_and_no_marks(database):
    shas = [f"{number:064x}" for number in range(4)]
    with database.write() as connection:
        earlier = drafts.create(connection, "L1")
        for sha in shas:
            add_image(connection, sha)
            drafts.add_image(connection, earlier, sha, limit=9)
        drafts.mark(connection, earlier, shas[:3])
        drafts.close_draft(connection, earlier, "discard")
        connection.execute("UPDATE images SET state = 'refused' WHERE sha = ?", (shas[0],))
        connection.execute("UPDATE images SET state = 'removed' WHERE sha = ?", (shas[1],))
        draft = drafts.create(connection, "L1 2")
        drafts.copy_images(connection, earlier, draft, limit=9)
        assert [image["sha"] for image in drafts.images(connection, draft)] == shas[2:]
        assert drafts.good(connection, draft) == []
        with pytest.raises(NotFoundError, match="There is no draft 99"):
            drafts.copy_images(connection, 99, draft, limit=9)
