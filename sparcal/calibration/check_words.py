"""The checks in plain words: what each is about, and what to do next; the measured sentence stays within reach."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 4  # parts that a plain sentence names; the measured one names them all
_TITLES = {
    "number": "Number of parts",
    "duplicates": "The same part twice?",
    "alignment": "Position",
    "odd one out": "A bad part among them?",
    "shift": "Does the lot look different?",
    "alone": "Is one the only one of its kind?",
    "outline": "Where the part is",
    "removed": "What calibration evens out",
    "expected benefit": "Will calibrating help?",
    "benefit": "Does calibrating help?",
    "self-test": "Are planted defects found?",
    "threshold": "Threshold",
}
_PLAIN = {
    ("number", "ok"): "Enough parts to calibrate.",
    ("number", "look"): "Few parts: show more if you can.",
    ("duplicates", "ok"): "No, every picture shows a part of its own.",
    ("duplicates", "stop"): "The same part twice, or one that the station was fitted on: {parts}. Show each part once.",
    ("alignment", "ok"): "The parts lie where the training parts lay.",
    ("alignment", "look"): "The parts lie a little differently: compare fixture and camera.",
    ("alignment", "stop"): "Not where the training parts lay: {parts}. Put fixture and camera right, or take {it} out.",
    ("odd one out", "ok"): "No part stands out from the others.",
    ("odd one out", "look"): "Look at {parts} for a defect, or show more parts like it.",
    ("odd one out", "stop"): "Probably defective: {parts}. Look at {it}, and calibrate without {it}.",
    ("shift", "ok"): "Yes, and that is what calibrating is for.",
    ("removed", "ok"): "Differences that are no defects are evened out.",
    ("removed", "look"): "The parts differ in different ways: show more of each kind.",
    ("expected benefit", "ok"): "Calibrating should help.",
    (
        "expected benefit",
        "look",
    ): "Calibrating will probably not help: more parts, or parts of each kind, may change that.",
    ("benefit", "ok"): "Nothing that was tried does clearly better.",
    ("benefit", "look"): "Calibrating does not help: the station's own reference is as good.",
    ("alone", "ok"): "No, each part has another like it.",
    ("alone", "look"): "Different all over: {parts}. If good, show another one like {it}.",
    ("self-test", "ok"): "Most of them are.",
    ("self-test", "look"): "Too few are found, or too few parts were there to try: show more good parts.",
    ("threshold", "ok"): "The threshold keeps what was asked for.",
    (
        "threshold",
        "look",
    ): "Too few parts to promise what was asked for, so the threshold is a careful guess. 19 parts are "
    "enough for the default of 5 %; with fewer that is usual.",
}


def check_title(name: str) -> str:
    """What a check is about."""
    return _TITLES.get(name, name.capitalize())


def plain_sentence(name: str, verdict: str, sentence: str, images: Sequence[str]) -> str:
    """What a check says, in words that need no statistics; the check's own sentence where there are none."""
    words = _PLAIN.get((name, verdict))
    if name == "shift" and sentence.startswith("The lot looks like"):
        words = "No, these parts look like the training parts."
    if words is None or ("{parts}" in words and not images):
        return sentence
    more = f" and {len(images) - _NAMED} more" if len(images) > _NAMED else ""
    return words.format(parts=", ".join(images[:_NAMED]) + more, it="it" if len(images) == 1 else "them")
