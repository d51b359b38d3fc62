"""A bucket of open uploads of five kinds of owners: what is reported of them, and what ending them leaves."""
