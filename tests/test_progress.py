"""Progress: a bar in a notebook, the caller's own where one is given, silence everywhere else."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from sparcal.imaging.encode import encode
from sparcal.progress import in_notebook, shown_progress, unwatched
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder, demo, pictures


class Screen:
    """What a notebook would show: the last state of every line, and how often any was drawn."""

    def __init__(self):
        self.lines, self.drawn = [], 0

    def display(self, page, *, display_id):
        assert display_id is True
        at = len(self.lines)
        self.lines.append("")
        handle = SimpleNamespace(update=lambda page: self.put(at, page))
        handle.update(page)
        return handle

    def put(self, at, page):
        self.lines[at] = page.data
        self.drawn += 1


@pytest.fixture
def screen(monkeypatch):
    from IPython import display

    screen = Screen()
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1), display=display)
    )
    monkeypatch.setattr(display, "display", screen.display)
    return screen


def test_a_script_and_a_terminal_see_nothing(monkeypatch, capsys):
    assert not in_notebook()
    with shown_progress(None, "Working") as told:
        assert told is unwatched
        told(1, 2)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=SimpleNamespace))
    assert not in_notebook(), "IPython in a terminal has no kernel"
    assert capsys.readouterr() == ("", "")


def test_the_callers_own_wins(screen):
    said = []
    with shown_progress(lambda *steps: said.append(steps), "Working") as told:
        told(1, 2)
    assert (said, screen.lines) == ([(1, 2)], [])


def test_a_notebook_gets_a_line_for_each_stage(screen, monkeypatch):
    with shown_progress(None, "Reading <b>", "Fitting") as told:
        told(1, 3)
        assert screen.lines == [
            "<div>Reading &lt;b&gt;: <progress value='1' max='3' aria-label='Reading &lt;b&gt;'></progress> 1 of 3</div>"
        ]
        told(3, 3)
        assert screen.drawn == 1, "at most a few times a second"
        monkeypatch.setattr("sparcal.progress.SECONDS_BETWEEN", 0)
        told(0, 5)
        told(5, 5)
    assert screen.lines[0].startswith("<div>Reading &lt;b&gt;: 3 of 3 in ")
    assert screen.lines[1].startswith("<div>Fitting: 5 of 5 in ")
    assert "<progress" not in "".join(screen.lines), "what is done has no bar"


def test_nothing_appears_where_the_work_is_refused(screen):
    with pytest.raises(ValueError, match="no"), shown_progress(None, "Working"):
        raise ValueError("no")
    assert screen.lines == []


def test_everything_that_takes_time_shows_itself(screen, tmp_path):
    parts = demo()
    encode(TinyEncoder(), pictures(parts.lot_good[:3]))
    station = Station.fit(pictures(parts.train[:10]), path=tmp_path / "station", encoder=TinyEncoder())
    station = station.add(pictures(parts.train[10:12]))
    lot = station.calibrate(pictures(parts.lot_good[:4]), name="L42", correction="sparc")
    lot.score(pictures(parts.lot_bad[:2]))
    steps = [line.removeprefix("<div>").split(" in ")[0] for line in screen.lines]
    assert steps == [
        "Encoding: 3 of 3",
        "Encoding good parts: 10 of 10",
        "Fitting and testing: 4 of 4",
        "Encoding good parts: 2 of 2",
        "Fitting and testing: 4 of 4",
        "Calibrating lot L42: 5 of 5",
        "Judging: 2 of 2",
    ]
