"""`sparcal test`: plant defects on a lot's verified parts again, and see whether as many are found as on its first day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sparcal.cli.completion import lot_names
from sparcal.cli.console import print_json, print_sentence, print_table, stdout_takes, use_cores, wrong_call
from sparcal.cli.options import Device, Json, StationPath, StationRuntime, WeightsFile
from sparcal.devices import AUTO_DEVICE
from sparcal.runtimes import AUTO_RUNTIME
from sparcal.threads import core_count

if TYPE_CHECKING:
    from sparcal.calibration.self_test import SelfTest

BAR = 24  # characters of a full bar


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("test")(run_self_test)


def run_self_test(
    station: StationPath,
    lot: Annotated[
        str | None, typer.Option(help="Lot to test; without it, the one that is active.", autocompletion=lot_names)
    ] = None,
    n: Annotated[int, typer.Option(min=1, help="Plain defects to plant; half as many faint ones come on top.")] = 64,
    seed: Annotated[
        int, typer.Option(min=0, help="Draws the defects: another number plants others; take a new one each shift.")
    ] = 0,
    weights: WeightsFile = None,
    device: Device = AUTO_DEVICE,
    runtime: StationRuntime = AUTO_RUNTIME,
    as_json: Json = False,
) -> None:
    """Test a lot by planting defects. Leaves with 1 if clearly fewer are found than on record."""
    from sparcal.calibration.self_test import WORSE, chance_of_fewer
    from sparcal.station.station import Station

    with wrong_call():
        opened = Station.open(station, weights=weights, workers=core_count(), device=device, runtime=runtime)
        chosen = opened.lot(lot)
    use_cores()
    tested = opened.self_test(chosen.name, n=n, seed=seed)
    first = chosen.record.self_test
    chance = None if first is None else chance_of_fewer(tested.found, tested.planted, first.found, first.planted)
    worse = chance is not None and chance < WORSE
    if as_json:
        record = None if first is None else {"planted": first.planted, "found": first.found}
        compared = {"record": record, "chance": chance, "worse": worse}
        print_json({"lot": chosen.name, "threshold": chosen.threshold.value, **tested.to_json(), **compared})
    else:
        print_sentence(f"{chosen.title}.")
        tell_self_test(tested)
        print_sentence(_compared(first, chance, worse=worse))
    if worse:
        raise typer.Exit(1)


def tell_self_test(tested: SelfTest) -> None:
    """The result of a self-test for people: a sentence, then what is found by kind and by size."""
    print_sentence(tested.sentence)
    by_kind = [(kind, found, planted) for kind, (found, planted) in tested.by_kind.items()]
    print_table(_rows("kind", by_kind), title="Planted defects by kind, the plain ones that a person would see at once")
    by_size = [
        (f"{row['from']:.0f} to {row['to']:.0f}", int(row["found"]), int(row["planted"])) for row in tested.by_size
    ]
    print_table(_rows("size in pixels", by_size), title="By size in pixels of the photograph, the faint ones included")


def _rows(what: str, counts: Sequence[tuple[str, int, int]]) -> list[Mapping[str, object]]:
    return [
        {what: name, "found": found, "planted": planted, "share": bar(found / planted)}
        for name, found, planted in counts
    ]


def bar(share: float) -> str:
    """A share as a bar of text."""
    full = round(BAR * share)
    filled, empty = "█░" if stdout_takes("█░") else "#."
    return filled * full + empty * (BAR - full) + f" {share:4.0%}"


def _compared(first: SelfTest | None, chance: float | None, *, worse: bool) -> str:
    if first is None or chance is None:
        return "There is no earlier test on record to compare with."
    then = f"{first.found} of {first.planted}"
    if worse:
        return (
            f"Fewer are found than the {then} on record, and chance explains that in {max(chance, 0.0001):.2%} of cases "
            "only: look at the threshold, the lamp and the camera before judging parts, or calibrate again."
        )
    return f"That is in line with the {then} on record."
