"""What differs between two lots, fact by fact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparcal.station.lot import Lot
    from sparcal.station.lot_record import LotRecord


def compare(first: Lot, second: Lot) -> list[dict[str, Any]]:
    """What differs between two lots, one row per fact: `what`, `first`, `second`."""
    a, b = first.record, second.record
    found, also = _planted_facts(a), _planted_facts(b)
    facts: list[tuple[str, Any, Any]] = [
        ("created", a.created, b.created),
        ("operator", a.operator, b.operator),
        ("calibration images", len(a.images), len(b.images)),
        ("images in both", *(len({h for _, h in a.images} & {h for _, h in b.images}),) * 2),
        ("correction", a.correction, b.correction),
        ("threshold", first.threshold.value, second.threshold.value),
        ("threshold from", first.threshold.basis, second.threshold.basis),
        ("pixel threshold", first.pixel_threshold.value, second.pixel_threshold.value),
        *((what, found.get(what), also.get(what)) for what in found | also),
        ("checks", a.verdict, b.verdict),
    ]
    checks = [{check.name: check for check in record.checks} for record in (a, b)]
    for name in checks[0] | checks[1]:
        x, y = (side.get(name) for side in checks)
        facts.append((f"check: {name}", x and x.number, y and y.number))
        facts.append((f"verdict: {name}", x and x.verdict, y and y.verdict))
    return [{"what": what, "first": x, "second": y} for what, x, y in facts]


def _planted_facts(record: LotRecord) -> dict[str, object]:
    if record.self_test is None:
        return {}
    test = record.self_test
    return {
        "planted defects found": f"{test.found} of {test.planted}",
        "faint planted defects found": f"{test.faint[0]} of {test.faint[1]}",
        "pixels from which nine in ten are found": test.a90,
    }
