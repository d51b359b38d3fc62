"""What stored bytes cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from magicfs.errors import UsageError

PRICES_OF: Final = "2025-06"
"""The month of the price lists that the table is from."""
_GIB: Final = 2**30
_LISTED: Final = {
    "s3": (0.023, "Amazon S3 Standard, us-east-1"),
    "gcs": (0.020, "Google Cloud Storage Standard, us-central1"),
    "abfs": (0.0184, "Azure Blob Storage Hot LRS, East US"),
}


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a GiB and a month.

    Attributes:
        dollars: How many; None if nobody said, and no list has the store.
        source: Where it is from.
    """

    dollars: float | None
    source: str

    def of(self, size: float) -> float | None:
        """Dollars a month for so many bytes; None if the price is not known."""
        return None if self.dollars is None else self.dollars * size / _GIB


def price_of(store: str, given: float | None) -> Price:
    """The price that was given, or that of a list.

    Raises:
        UsageError: It is no price.
    """
    if given is not None:
        if not (math.isfinite(given) and given >= 0):
            raise UsageError(f"--price {given} is not a price; give dollars per GiB and month, such as 0.023")
        return Price(given, "--price")
    dollars, source = _LISTED.get(store, (None, f"{store} has no price list; give --price"))
    return Price(dollars, f"{source}, {PRICES_OF}" if dollars is not None else source)


def money(dollars: float | None) -> str:
    """Dollars for people; empty if not known."""
    if dollars is None:
        return ""
    return f"${dollars:,.2f}" if dollars >= 0.01 or not dollars else "< $0.01"
