"""Bytes as people say them."""

from __future__ import annotations

import pytest

from sparcal.files.amounts import amount


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (512, "512 bytes"),
        (1000, "1.0 kB"),
        (49_152, "49 kB"),
        (999_600, "1.0 MB"),
        (300e6, "300 MB"),
        (1.23e9, "1.2 GB"),
        (64e9, "64 GB"),
        (2e12, "2.0 TB"),
        (5e15, "5000 TB"),
    ],
)
def test_the_unit_fits_the_amount(size, said):
    assert amount(size) == said
