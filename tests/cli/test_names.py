"""Names of files, lots and operators in every table, page, CSV and log: text, never markup, never a command to a terminal."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from sparcal.cli import run

LOT = "[/] =1+1 [red]<b>"
OPERATOR = "\x1b[31mAda\udcff"  # as the shell hands over a byte that is no UTF-8
FILES = [
    b"[cam1]_001.png",
    b"[cam2]_001.png",
    b"=cmd.png",
    b"-1.png",
    b"\xff\xfe.png",
    b"\x1b[31mred.png",
    b"two\nlines.png",
    b"<b>&'\".png",
    "\u202e正.png".encode(),
    ("検" * 80 + ".png").encode(),
]


@pytest.fixture(scope="module")
def named_line(calibrated_line, tmp_path_factory):
    """A station with a lot of an awkward name, and images with such names."""
    root = tmp_path_factory.mktemp("named")
    shutil.copytree(calibrated_line / "station", root / "station")
    for folder, source in (("normals", "normals"), ("lot", "lot")):
        (root / folder).mkdir()
        images = sorted((calibrated_line / source).iterdir())
        for name, image in zip(FILES, images, strict=False):
            shutil.copy(image, os.fsencode(root / folder) + b"/" + name)
    words = ["--lot", LOT, "--operator", OPERATOR, "--correction", "sparc-recentred", "--activate"]
    assert run(["calibrate", str(root / "station"), str(root / "normals"), *words]) == 0
    return root


def assert_harmless(text: str) -> None:
    """Lines of printable characters, and nothing else."""
    assert all(line.isprintable() for line in text.split("\n")), ascii(text)


def test_lots_and_their_history(named_line, capsys):
    for words in (["lots"], ["lots", "--history"], ["show"], ["show", "--against", "L1"]):
        assert run([words[0], str(named_line / "station"), *words[1:]]) == 0
        said = capsys.readouterr()
        assert_harmless(said.out + said.err)
        assert "[/] =1+1 [red]<b>" in " ".join((said.out + said.err).split())
    assert run(["lots", str(named_line / "station"), "--history", "--json"]) == 0
    assert_harmless(text := capsys.readouterr().out)
    assert OPERATOR in [entry["operator"] for entry in json.loads(text)]


def test_every_file_is_judged_and_told_apart(named_line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(named_line / "lot")
    names = {os.fsdecode(name) for name in os.listdir(b".")}
    call = ["score", "../station", *sorted(names), "--out", str(tmp_path / "out")]
    assert run([*[word if word != "-1.png" else "./-1.png" for word in call], "--json"]) == 0
    rows = json.loads(text := capsys.readouterr().out)
    assert_harmless(text)
    assert {row["path"] for row in rows} == names
    assert len({row["map"] for row in rows}) == len(names)
    assert all(Path(row["map"]).is_file() for row in rows)
    assert run(["score", "../station", "./", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert_harmless(said.out + said.err)
    for shown in ("[cam1]_001.png", "[cam2]_001.png", r"\xff\xfe.png", r"two\x0alines.png", r"\x1b[31mred.png"):
        assert shown in said.out
    _check_table(tmp_path / "out" / "scores.csv")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert_harmless(page)
    for shown in (r"\xff\xfe.png", r"\x1b[31mred.png", "<b>&'\".png", f"Lot {LOT}"):
        assert shown in unescape(page)
    assert "<b>&'" not in page


def _check_table(path):
    text = path.read_text(encoding="utf-8")
    assert_harmless(text)
    cells = [cell for row in csv.reader(text.splitlines()) for cell in row]
    assert "./=cmd.png" in cells
    assert "./-1.png" in cells
    assert not [cell for cell in cells if cell[:1] in tuple("=+@-")]


def in_a_plain_locale(named_line, command, **more):
    """The bytes that a command prints where nothing but ASCII is known."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    words = [sys.executable, "-m", "sparcal", *command]
    done = subprocess.run(words, cwd=named_line, env={**kept, "LC_ALL": "C", **more}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("more", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}])
def test_a_plain_locale_will_do_for_a_list(named_line, more):
    assert b"[/] =1+1 [red]<b>" in in_a_plain_locale(named_line, ["lots", "station"], **more)


def test_a_plain_locale_will_do_to_judge(named_line, tmp_path):
    command = ["score", "station", "lot", "--out", str(tmp_path / "out"), "--json"]
    listing = in_a_plain_locale(named_line, command, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    paths = {row["path"].encode("utf-8", "surrogateescape") for row in json.loads(listing)}
    assert paths == {b"lot/" + name for name in os.listdir(os.fsencode(named_line / "lot"))}


def test_a_wrong_call_names_what_was_given(named_line, capsys):
    assert run(["score", str(named_line / "station"), "\x1b[31m\udcff"]) == 2
    assert run([f"\x1b]0;title\x07{OPERATOR}"]) == 2
    assert run(["lots", f"{named_line}/[/]\x1b"]) == 2
    assert_harmless(said := capsys.readouterr().err)
    assert said.count("\n") == 3
