"""A line as folders: the numbers it says, a truth that matches, other parts for another seed, one sentence where it cannot."""

from __future__ import annotations

import csv
import json

import pytest

from sparcal.cli import run
from sparcal.errors import DataError
from sparcal.rendering.line import FOLDERS, TRUTH, write_line
from sparcal.rendering.parts import write_png


def truth_of(folder):
    with (folder / TRUTH).open(newline="") as stream:
        return {row["path"]: row["truth"] for row in csv.DictReader(stream)}


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    folder = tmp_path_factory.mktemp("line") / "line"
    return folder, write_line(folder, size=64, share=0.25)


def test_every_file_is_in_the_truth_and_every_folder_has_its_bad_parts(line):
    folder, written = line
    truth = truth_of(folder)
    assert sorted(truth) == sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    for one in written:
        inside = [kind for path, kind in truth.items() if path.startswith(f"{one.name}/")]
        assert (len(inside), sum(kind != "good" for kind in inside)) == (one.parts, one.bad)
    assert [one.bad > 0 for one in written] == [one.bad > 0 for one in FOLDERS]


def test_a_seed_decides_every_byte(line, tmp_path):
    folder, _ = line
    write_line(tmp_path / "same", size=64, share=0.25)
    write_line(tmp_path / "other", size=64, share=0.25, seed=1)
    pictures = sorted(path.relative_to(folder) for path in folder.rglob("*.png"))
    assert all((tmp_path / "same" / path).read_bytes() == (folder / path).read_bytes() for path in pictures)
    assert all((tmp_path / "other" / path).read_bytes() != (folder / path).read_bytes() for path in pictures)
    assert len({(folder / path).read_bytes() for path in pictures}) == len(pictures), "no part twice"


def test_a_folder_that_holds_something_is_refused(line):
    with pytest.raises(DataError, match="needs a new or empty folder, got .*: choose another"):
        write_line(line[0])


def test_a_full_disk_leaves_nothing_and_the_same_call_works_later(tmp_path, monkeypatch, capsys):
    written = []

    def full(image, path):
        written.append(path)
        if len(written) == 5:
            raise OSError(28, "No space left on device")
        write_png(image, path)

    monkeypatch.setattr("sparcal.rendering.line.write_png", full)
    call = ["parts", str(tmp_path / "line"), "--size", "64"]
    assert run(call) == 1, "nobody's wrong call"
    assert "line needs more free space on its disk, got" in capsys.readouterr().err
    assert len(written) == 5
    assert list((tmp_path / "line").iterdir()) == []
    monkeypatch.setattr("sparcal.rendering.line.FOLDERS", FOLDERS[2:3])
    assert run(call) == 0
    assert sorted(path.name for path in (tmp_path / "line").iterdir()) == ["normals", TRUTH]


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sparcal.rendering.line.FOLDERS", FOLDERS[2:])
    assert run(["parts", str(tmp_path / "caps"), "--product", "cap", "--size", "64"]) == 0
    assert "8 of them bad; lamp: warm-right" in capsys.readouterr().out
    assert run(["parts", str(tmp_path / "more"), "--size", "64", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in said["folders"]] == ["normals", "lot"]
    assert run(["parts", str(tmp_path / "none"), "--product", "chair"]) == 2
    assert "unknown product 'chair'" in capsys.readouterr().err
