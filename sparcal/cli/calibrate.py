"""`sparcal calibrate`: a lot from 2 to 32 images known to be good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparcal.calibration.defaults import AUTO, FALSE_REJECT
from sparcal.cli.console import (
    CallError,
    print_json,
    print_sentence,
    print_table,
    progress,
    tell_nameless,
    use_cores,
    wrong_call,
)
from sparcal.cli.options import Device, Json, OperatorName, StationPath, StationRuntime, StopReason, WeightsFile
from sparcal.cli.self_test import tell_self_test
from sparcal.devices import AUTO_DEVICE
from sparcal.runtimes import AUTO_RUNTIME
from sparcal.threads import core_count

if TYPE_CHECKING:
    from sparcal.calibration.check import Check
    from sparcal.station.lot import Lot


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(calibrate)


def calibrate(
    station: StationPath,
    normals: Annotated[list[str], typer.Argument(help="2 to 32 images of good parts of the lot, or their folder.")],
    lot: Annotated[str, typer.Option(help="Name of the lot; any text that is new.")],
    k: Annotated[int | None, typer.Option(min=2, help="Take the first k images only.")] = None,
    correction: Annotated[str, typer.Option(help="auto, or one of 'sparcal corrections'.")] = "auto",
    false_reject: Annotated[float, typer.Option(help="Share of good parts that may be rejected.")] = FALSE_REJECT,
    operator: OperatorName = None,
    activate: Annotated[
        bool, typer.Option(help="Judge with this lot from now on; if a check says stop, only with --reason.")
    ] = True,
    reason: StopReason = None,
    weights: WeightsFile = None,
    device: Device = AUTO_DEVICE,
    runtime: StationRuntime = AUTO_RUNTIME,
    as_json: Json = False,
) -> None:
    """Calibrate a station to a lot. Planted defects choose the correction; the threshold is set and tested."""
    from sparcal.calibration.thresholds import check_rate
    from sparcal.imaging.find import find_images
    from sparcal.station.folder import StationFolder
    from sparcal.station.lot_name import clean_name
    from sparcal.station.station import Station

    with wrong_call():
        check_rate(false_reject)
        StationFolder(station).require_new_lot(clean_name(lot))  # before torch is loaded and images are read
        opened = Station.open(station, weights=weights, workers=core_count(), device=device, runtime=runtime)
        images = _first(k, find_images([str(part) for part in normals]))
        _check_asked(correction, len(images))
    tell_nameless(operator)
    use_cores()
    with progress(f"Calibrating lot {lot}") as report:
        made = opened.calibrate(
            images,
            lot,
            correction=correction,
            operator=operator,
            false_reject=false_reject,
            activate=activate,
            reason=reason,
            progress=report,
        )
    active = opened.active() == made.name
    if as_json:
        print_json({**made.record.to_json(), "active": active})
    else:
        _tell_calibrated(station, made, active=active)
    if made.record.verdict == "stop" and not active:
        raise typer.Exit(1)


def _first(k: int | None, images: list[Path]) -> list[Path]:
    if k is not None and k > len(images):
        raise CallError(f"--k takes the first {k} images, got {len(images)}: show more good parts, or leave --k out.")
    return images[:k]


def _check_asked(correction: str, normals: int) -> None:
    from sparcal.corrections import CORRECTIONS  # needs torch, so it comes after what can be refused at once
    from sparcal.station.calibrating import check_count

    if correction != AUTO and correction not in CORRECTIONS:
        raise CallError(f"There is no correction {correction!r}; choose from {', '.join([AUTO, *CORRECTIONS])}.")
    check_count(normals)


def tell_lot(lot: Lot) -> None:
    """A lot for people: the choice, what its threshold promises and does, what it finds, and the checks."""
    record = lot.record
    effect = lot.effect_of(lot.threshold.value).sentence
    said = [record.choice.sentence, lot.threshold.sentence]
    print_sentence(record.choice.sentence)
    print_sentence(f"{lot.threshold.sentence} The threshold {lot.threshold.value:.4g} {effect}.")
    if lot.self_test is not None:
        said.append(lot.self_test.sentence)
        tell_self_test(lot.self_test)
    if record.checks:
        moved = lot.threshold != record.image_threshold
        where = f", at the calibrated threshold {record.image_threshold.value:.4g}" if moved else ""
        print_table(check_rows(record.checks, said), title=f"Checks{where}")


def check_rows(checks: Sequence[Check], said: Sequence[str]) -> list[dict[str, object]]:
    """One line per check, for a table: in the plain words of the web station, and what was measured where somebody must look.

    Args:
        said: sentences that were said before; they are not said again.
    """
    from sparcal.calibration.check_words import check_title, plain_sentence

    rows: list[dict[str, object]] = []
    for check in checks:
        names = [Path(image).name for image in check.images]
        plain = plain_sentence(check.name, check.verdict, check.sentence, names)
        measured = with_short_names(check.sentence, check.images)
        more = "" if check.verdict == "ok" or plain == check.sentence else f" {_news(measured, said)}"
        rows.append(
            {"check": check_title(check.name), "verdict": check.verdict, "what it means": f"{plain}{more}".strip()}
        )
    return rows


def with_short_names(sentence: str, images: Sequence[str]) -> str:
    """The sentence with the names of files for their paths, unless two would then be called the same."""
    names = [Path(image).name for image in images]
    if len(set(names)) < len(names):
        return sentence
    for image, name in sorted(zip(images, names, strict=True), key=lambda pair: -len(pair[0])):
        sentence = sentence.replace(image, name)
    return sentence


def _news(sentence: str, said: Sequence[str]) -> str:
    news = sentence
    for known in said:
        news = news.removeprefix(known).strip()
    return news


def _tell_calibrated(station: Path, lot: Lot, *, active: bool) -> None:
    from sparcal.calibration.check_words import check_title

    tell_lot(lot)
    if (page := lot.self_test_page()) is not None:
        print_sentence(f"The planted defects, found and missed, are on {page}.")
    stopped = stopping(lot.record.checks)
    if not stopped:
        looks = [check_title(check.name) for check in lot.record.checks if check.verdict == "look"]
        if looks:
            print_sentence(f"Look at what the table says of: {', '.join(looks)}.")
        judge = f"sparcal score {station} IMAGES --lot {lot.name!r} --out FOLDER"
        state = "judges from now on" if active else "is written but does not judge yet"
        print_sentence(f"Lot {lot.name} {state}. To judge images with it: {judge}.")
        return
    if active:
        print_sentence(f"Lot {lot.name} judges from now on, although {stopped}.")
        return
    print_sentence(
        f"Lot {lot.name} is written but does not judge, because {stopped}: do as the table of checks says, then "
        f"calibrate again under another name. To judge with it all the same: sparcal lots {station} "
        f"--activate {lot.name!r} --reason 'why it may'."
    )


def stopping(checks: Sequence[Check]) -> str:
    """Which checks say stop, by the titles that the table gives them; nothing where none does."""
    from sparcal.calibration.check_words import check_title

    titles = [f'"{check_title(check.name)}"' for check in checks if check.verdict == "stop"]
    return f"{' and '.join(titles)} {'says' if len(titles) == 1 else 'say'} stop" if titles else ""
