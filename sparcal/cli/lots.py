"""`sparcal lots` and `sparcal show`: what a station has been calibrated to, and one lot in full."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sparcal.calibration.defaults import OWN_REFERENCE
from sparcal.cli.calibrate import tell_lot
from sparcal.cli.compare import in_words, print_comparison
from sparcal.cli.completion import lot_names
from sparcal.cli.console import CallError, print_json, print_sentence, print_table, say, tell_nameless, wrong_call
from sparcal.cli.fit import tell_left_out
from sparcal.cli.options import Json, OperatorName, StationPath, StopReason

if TYPE_CHECKING:
    from sparcal.station.folder import StationFolder
    from sparcal.station.lot import Lot
    from sparcal.station.station import Station

Read = TypeVar("Read")
CALIBRATED = "calibrated"  # in place of a number: the threshold that calibration set


def register(app: typer.Typer) -> None:
    """Add the two commands."""
    app.command()(lots)
    app.command()(show)


def lots(
    station: StationPath,
    activate: Annotated[
        str | None, typer.Option(help="Judge with this lot from now on (roll back).", autocompletion=lot_names)
    ] = None,
    own: Annotated[bool, typer.Option("--own", help="Judge with the station's own reference from now on.")] = False,
    history: Annotated[bool, typer.Option("--history", help="Who did what when, instead.")] = False,
    operator: OperatorName = None,
    reason: StopReason = None,
    as_json: Json = False,
) -> None:
    """The station's lots, oldest first; the active one judges."""
    from sparcal.station.folder import StationFolder  # needs no torch, so the list appears at once

    if own and activate is not None:
        raise CallError("Either --activate NAME or --own can be asked for, got both: leave one out.")
    if reason is not None and activate is None:
        raise CallError("--reason says why a lot is made active past a stop, got no --activate NAME: add it.")
    with wrong_call():
        folder = StationFolder(station)
        folder.read_station()
        folder.sweep()
        if own or activate is not None:
            folder.activate(activate, operator, reason)
            tell_nameless(operator)
    troubles: list[str] = []
    if history:
        _tell_history(folder, troubles, as_json=as_json)
    else:
        _tell_lots(folder, troubles, as_json=as_json)
    for trouble in troubles:
        say(trouble)
    if troubles and not own and activate is None:  # what was asked for has been done; a list with gaps has not
        raise typer.Exit(1)


def _tell_lots(folder: StationFolder, troubles: list[str], *, as_json: bool) -> None:
    """The lots that can be read; what cannot goes to `troubles`, and hides none of the others."""
    active = _try(folder.active, troubles)
    lost = len(troubles)
    rows = [_lot_row(folder, record, active, troubles) for record in folder.read_lots()]
    damaged = folder.damaged_lots()
    troubles += damaged.values()
    if as_json:
        print_json([*rows, *({"lot": name, "damaged": why} for name, why in damaged.items())])
    elif rows:
        print_table([{**row, "correction": in_words(row["correction"])} for row in rows])
        if active is None and not lost:
            print_sentence("No lot is active: the station judges with its own reference.")
    elif not damaged and not lost:
        print_sentence(
            f"The station {folder.root} has no lots: it judges with its own reference until one is calibrated."
        )


def _tell_history(folder: StationFolder, troubles: list[str], *, as_json: bool) -> None:
    entries, damage = folder.history(), folder.history_damage()
    troubles += [damage] if damage else []
    if as_json:
        print_json(entries)
    elif entries:
        print_table([_history_row(entry) for entry in entries])


def _history_row(entry: dict[str, Any]) -> dict[str, object]:
    """One event as people read it: when, what, which lot, to which value, by whom."""
    event = entry.get("event")
    chosen = [f"{kind} {entry[kind]:g}" for kind in ("image", "pixel") if isinstance(entry.get(kind), int | float)]
    value = {
        "fit": f"{entry.get('images')} images",
        "calibrate": f"{entry.get('verdict')}, {'active' if entry.get('active') else 'not active'}",
        "threshold": ", ".join(chosen) or "as calibrated",
    }
    if entry.get("reason"):
        value[str(event)] = f"{value.get(str(event), 'active')}, although a check said stop: {entry['reason']}"
    whole = event in ("activate", "threshold") and entry.get("lot") is None
    return {
        "time": entry.get("time"),
        "event": event,
        "lot": in_words(OWN_REFERENCE) if whole else entry.get("lot"),
        "value": value.get(str(event)),
        "operator": entry.get("operator"),
    }


def _try(read: Callable[[], Read], troubles: list[str]) -> Read | None:
    """What `read` gives; None, and the sentence kept, where a file is damaged."""
    from sparcal.errors import ArtifactError

    try:
        return read()
    except ArtifactError as error:
        troubles.append(str(error))
        return None


def _lot_row(
    folder: StationFolder, record: dict[str, Any], active: str | None, troubles: list[str]
) -> dict[str, object]:
    chosen = _try(lambda: folder.thresholds(record["name"]), troubles)
    limit = None if chosen is None else chosen.get("image", record["image_threshold"]["value"])
    return {
        "lot": record["name"],
        "active": record["name"] == active,
        "created": record["created"],
        "operator": record["operator"],
        "images": len(record["images"]),
        "correction": record["correction"],
        "threshold": limit,
        "checks": record["verdict"],
    }


def show(
    station: StationPath,
    lot: Annotated[
        str | None, typer.Option(help="Name of the lot; without it, the one that judges.", autocompletion=lot_names)
    ] = None,
    against: Annotated[str | None, typer.Option(help="Another lot to compare with.", autocompletion=lot_names)] = None,
    threshold: Annotated[
        str | None, typer.Option(help="Set the lot's image threshold by hand, or 'calibrated' to take its own back.")
    ] = None,
    defect_size: Annotated[
        float | None, typer.Option(help="Extent in pixels of the defects that matter: say how many of them are found.")
    ] = None,
    defect_contrast: Annotated[
        float | None, typer.Option(help="With --defect-size: by how many grey levels they differ from a good part.")
    ] = None,
    operator: OperatorName = None,
    as_json: Json = False,
) -> None:
    """One lot in full. What it would find, its threshold and where that comes from, its checks."""
    from sparcal.station.station import Station

    with wrong_call():
        wanted = None if threshold is None else _threshold(threshold)
        opened = Station.open(station)
        name = opened.active() if lot is None else lot
        if threshold is not None:  # before it is read: a damaged one is replaced
            opened.set_threshold(name, wanted, operator=operator)
            tell_nameless(operator)
        shown = opened.own() if name is None else opened.lot(name)
        moved = "" if threshold is None else _moved(shown)
        chance = _chance_at(shown, defect_size, defect_contrast)
        rows = opened.compare(shown.name, against) if against is not None else []
    if against is not None:
        print_json({"compare": rows}) if as_json else print_comparison(rows, shown.name, against)
    elif as_json:
        print_json(_for_machines(opened, shown) | ({} if chance is None else {"chance_at_size": chance}))
    else:
        _for_people(opened, shown, [moved, _chance_in_words(defect_size, defect_contrast, chance)])


def _for_machines(station: Station, lot: Lot) -> dict[str, Any]:
    limits = {"threshold": lot.threshold.to_json(), "pixel_threshold": lot.pixel_threshold.to_json()}
    effect = {"effect": asdict(lot.effect_of(lot.threshold.value))}
    given = {"left_out": station.record.left_out} if lot.name is None else {}
    return {**lot.record.to_json(), **limits, **effect, **given}


def _moved(lot: Lot) -> str:
    """What setting a threshold has come to."""
    now, calibrated = lot.threshold.value, lot.record.image_threshold.value
    where = (
        "as it was calibrated" if lot.threshold == lot.record.image_threshold else f"calibrated was {calibrated:.4g}"
    )
    return f"From now on the threshold is {now:.4g}, {where}: it {lot.effect_of(now).sentence}."


def _for_people(station: Station, lot: Lot, asked: Sequence[str]) -> None:
    """One lot in full.

    Args:
        asked: the answers to what was asked for; empty ones are left out.
    """
    record = lot.record
    print_sentence(f"{lot.title}, {lot.origin}.")
    for answer in filter(None, asked):
        print_sentence(answer)
    if lot.name is None:
        tell_left_out(station)
    tell_lot(lot)
    print_table(
        _histogram(record.image.histogram(), lot.threshold.value), title="Scores of good parts behind the threshold"
    )


def _chance_in_words(pixels: float | None, contrast: float | None, chance: float | None) -> str:
    if chance is None:
        return ""
    like = "plain and faint ones together" if contrast is None else f"{contrast:g} grey levels strong"
    return f"Of defects that are {pixels:g} pixels long, {like}, {chance:.0%} are found, if they are like the planted ones."


def _chance_at(lot: Lot, pixels: float | None, contrast: float | None) -> float | None:
    """How likely a defect of this size is found, at the threshold in force; None where no size was asked about."""
    from sparcal.errors import DataError

    if pixels is None:
        if contrast is not None:
            raise DataError("--defect-contrast needs --defect-size beside it, got none: give their extent in pixels.")
        return None
    if lot.self_test is None:
        raise DataError(
            f"--defect-size needs a lot with planted defects, got {lot.title}, which has none: calibrate it from 3 parts or more."
        )
    return lot.self_test.chance_at(pixels, contrast)


def _threshold(said: str) -> float | None:
    """The threshold that was asked for; None for the calibrated one."""
    from sparcal.calibration.thresholds import by_hand
    from sparcal.errors import DataError

    if said == CALIBRATED:
        return None
    try:
        value = float(said)
    except ValueError:
        raise DataError(f"--threshold takes a score or {CALIBRATED!r}, got {said!r}: give one of them.") from None
    return by_hand(value).value


def _histogram(bins: dict[str, list[float]], threshold: float) -> list[dict[str, object]]:
    """Bars of text: the station's own parts, and the lot's marked after them; an arrow where the threshold lies."""
    edges, own, lot = bins["edges"], bins["own"], bins["lot"]
    most = max([*(a + b for a, b in zip(own, lot, strict=True)), 1])
    rows: list[dict[str, object]] = []
    for low, high, mine, theirs in zip(edges[:-1], edges[1:], own, lot, strict=True):
        bar = "#" * round(40 * mine / most) + "o" * (round(40 * theirs / most) or int(theirs > 0))
        rows.append({"score": f"{low:.4g} to {high:.4g}", "station": mine, "lot": theirs, "# station, o lot": bar})
    if threshold < edges[0]:
        rows.insert(0, {"score": f"below {edges[0]:.4g}", "station": 0, "lot": 0})
    elif threshold >= edges[-1]:
        rows.append({"score": f"above {edges[-1]:.4g}", "station": 0, "lot": 0})
    rows[bisect_right(edges[1:], threshold) if threshold >= edges[0] else 0]["threshold"] = f"<- {threshold:.4g}"
    return rows
