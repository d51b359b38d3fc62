"""How much of a flight's delay the weather explains. Pure: every engine computes the same, bit for bit."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import pandas as pd

__all__ = ["INPUTS", "OUTPUTS", "explain"]

INPUTS: Final = ("visib", "wind_speed", "wind_gust", "precip", "temp", "sched_dep_time", "dep_delay")
OUTPUTS: Final = ("weather_severity", "expected_delay", "unexplained_delay")

_Numbers: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

# Minutes, by least squares over the 326,993 flights of 2013 that left and whose weather is known.
_BASE = -4.83
_FOG = 18.26
_WIND = 5.55
_RAIN = 45.62
_FROST = 7.46
_EACH_HOUR = 1.75

_CLEAR_MILES = 10.0
_GALE_MPH = 50.0
_CLOUDBURST_INCHES = 0.5
_FREEZING_F = 32.0
_FIRST_HOUR = 5.0
_UNITS = 1000.0


def explain(inputs: pd.DataFrame) -> pd.DataFrame:
    """The delay that time of day and weather make one expect, and what they leave unexplained.

    Only additions, multiplications, divisions and roundings, which IEEE 754 defines to the last bit.

    ``inputs``: the columns ``INPUTS``, in units of the National Weather Service: miles, miles per hour,
    inches, degrees Fahrenheit; times as hhmm; delays in minutes.

    Returns ``weather_severity`` (0 for a fine day to 4), ``expected_delay`` and ``unexplained_delay`` in
    minutes to the thousandth; missing where the weather is not known, or the flight did not leave.
    """
    visib, speed, gust, precip, temp, scheduled, delay = (
        inputs[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in INPUTS
    )
    fog = np.clip((_CLEAR_MILES - visib) / _CLEAR_MILES, 0.0, 1.0)
    wind = np.clip(_or(_or(gust, speed), 0.0) / _GALE_MPH, 0.0, 1.0)
    rain = np.clip(_or(precip, 0.0) / _CLOUDBURST_INCHES, 0.0, 1.0)
    frost = np.clip((_FREEZING_F - _or(temp, _FREEZING_F)) / _FREEZING_F, 0.0, 1.0)
    hours = np.floor(scheduled / 100.0) - _FIRST_HOUR
    expected = _BASE + _FOG * fog + _WIND * wind + _RAIN * rain + _FROST * frost + _EACH_HOUR * hours
    severity = _rounded(fog + wind + rain + frost)
    columns = (severity, _rounded(expected), _rounded(delay - expected))
    return pd.DataFrame(dict(zip(OUTPUTS, columns, strict=True)), index=inputs.index)


def _or(values: _Numbers, other: _Numbers | float) -> _Numbers:
    filled: _Numbers = np.where(np.isnan(values), other, values)
    return filled


def _rounded(values: _Numbers) -> _Numbers:
    rounded: _Numbers = np.rint(values * _UNITS) / _UNITS
    return rounded
