"""How each writer overwrites a dataset, as its documents say: functions of a place and rows."""
