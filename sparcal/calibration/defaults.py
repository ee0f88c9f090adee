"""What is taken where nothing is asked for; the command line reads these without loading anything heavy."""

from __future__ import annotations

AUTO = "auto"  # of corrections, the one under which planted defects stand out best; of devices, a card if there is one
FALSE_REJECT = 0.05  # share of good parts that may be rejected
OWN_REFERENCE = "identity"  # sparcal.corrections.STATION_REFERENCE, whose module needs torch
MOST_PLANTED = 100_000  # that anybody may ask for: an image each has to be encoded
PLANTED = 64  # plain defects of a self-test; faint ones come on top
ONE_IN = 100_000  # parts between two false alarms of a monitor, on average at least
FEWEST_KEPT = 3  # images of good parts that a monitor needs: one is left out, and two give a spread
