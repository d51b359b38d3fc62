"""The life of one job, from open to ended, whoever drives it."""
