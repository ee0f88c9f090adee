"""A path that leads to the wrong kind of thing is a wrong call: exit code 2, one sentence, nothing changed or made."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sparcal.cli import run

# Every path that a command takes, in the place of @; the folders that a call needs beside it stand in braces.
CALLS = {
    "fit": ["fit", "@", "--station", "{new}"],
    "fit --station": ["fit", "{normals}", "--station", "@", "--encoder", "bundled?size=64"],
    "fit --station --add": ["fit", "{normals}", "--station", "@", "--add"],
    "fit --weights": ["fit", "{normals}", "--station", "{new}", "--weights", "@"],
    "calibrate": ["calibrate", "@", "{normals}", "--lot", "L2"],
    "calibrate NORMALS": ["calibrate", "{station}", "@", "--lot", "L2"],
    "calibrate --weights": ["calibrate", "{station}", "{normals}", "--lot", "L2", "--weights", "@"],
    "score": ["score", "@", "{normals}"],
    "score --out": ["score", "{station}", "{normals}", "--out", "@"],
    "score --out --watch": ["score", "{station}", "{normals}", "--watch", "--idle", "0", "--out", "@"],
    "score --watch": ["score", "{station}", "@", "--watch", "--idle", "0", "--out", "{new}"],
    "score --weights": ["score", "{station}", "{normals}", "--weights", "@"],
    "test": ["test", "@"],
    "lots": ["lots", "@"],
    "show": ["show", "@"],
    "compare": ["compare", "@", "L1"],
    "serve": ["serve", "@", "--port", "0"],
    "serve --watch": ["serve", "{station}", "--port", "0", "--watch", "@"],
    "export": ["export", "@"],
    "export --out": ["export", "{station}", "--out", "@"],
    "export --out openvino": ["export", "{station}", "--format", "openvino", "--out", "@"],
    "export --out state": ["export", "{station}", "--format", "state", "--out", "@/x"],
    "parts": ["parts", "@"],
    "demo --out": ["demo", "--out", "@"],
    "bench run": ["bench", "run", "@", "--out", "{new}"],
    "bench run --out": ["bench", "run", "demo", "--out", "@"],
    "bench run --cache": ["bench", "run", "demo", "--out", "{new}", "--cache", "@"],
    "bench run --reuse": ["bench", "run", "demo", "--out", "{new}", "--reuse", "@", "--cache", "{cache}"],
    "bench report": ["bench", "report", "@"],
    "bench data": ["bench", "data", "visa", "@"],
}
WRONG = ("below a file", "loop", "below a loop", "dangling", "long", "")
READS_ANY_FILE = {"fit", "calibrate NORMALS", "bench run"}  # and says what is wrong with it


@pytest.fixture
def places(tmp_path, calibrated_line, monkeypatch):
    """Wrong places by name, and the folders of a good call."""
    (tmp_path / "file").write_text("a note")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return {
        **{name: name for name in ("file", "pipe", "loop", "dangling", "new", "cache")},
        **{"below a file": "file/x", "below a loop": "loop/x", "long": "x" * 300, "": ""},
        **{name: str(calibrated_line / name) for name in ("normals", "station")},
    }


def call(words, places, wrong):
    return [word.replace("@", places[wrong]).format(**places) for word in words]


@pytest.mark.parametrize("wrong", ["file", "pipe", *WRONG])
@pytest.mark.parametrize("name", CALLS)
def test_the_wrong_kind_of_thing_at_a_path_is_a_wrong_call(name, wrong, places, tmp_path, capsys):
    if name in READS_ANY_FILE and wrong in ("file", "pipe"):
        pytest.skip("any file may be named there")
    if name == "export --out state" and wrong == "":
        pytest.skip("/x may well be written")
    if name.endswith("--weights") and wrong == "file":
        pytest.skip("a file is what is asked for")
    before = sorted(os.listdir(tmp_path))
    assert run(call(CALLS[name], places, wrong)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Error: ")
    assert said.err.count("\n") == 1
    assert "unexpected" not in said.err
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "{normals}", "--station", "file"], "A station needs a folder, got the file file: choose another place."),
        (["export", "{station}", "--out", "file"], "An export needs a folder, got the file file: choose another place."),
        (["export", "{station}", "--out", "loop"], "An export needs a folder, got the link loop, which leads nowhere"),
        (["export", "{station}", "--format", "state", "--out", "."], "A lot's state is one file, got the folder ."),
        (["score", "{station}", "{normals}", "--out", "x" * 300], "Judging's folder must be a path that a file system can have, got a name of 300 bytes."),
        (["score", "{station}", "{normals}", "--out", ""], "The value of --out must not be empty, got nothing: give one, or leave it out."),
        (["score", "{station}", "{normals}", "--out="], "The value of --out must not be empty"),
        (["lots", ""], "The value of an argument must not be empty"),
        (["fit", "{normals}", "--station", "new", "--encoder", "bundled", "--weights", "file"], "The bundled encoder brings its own weights"),
        (["fit", "{normals}", "--station", "."], "A station needs a new or empty folder, got . with "),
        (["fit", "{normals}", "--station", "{station}"], "already: choose another folder, or add images to it"),
    ],
)  # fmt: skip
def test_the_sentence_says_what_is_there_and_what_to_do(words, message, places, capsys):
    assert run(call(words, places, "file")) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [["lots", "station"], ["hosts"], ["--version"]])
def test_a_removed_working_folder_is_one_sentence(words, tmp_path):
    """Without it torch's libraries abort the process with a sentence about themselves."""
    (tmp_path / "gone").mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); from sparcal.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=tmp_path / "gone", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "Error: A command needs a folder to work in, got one that was removed: change to another.\n"
