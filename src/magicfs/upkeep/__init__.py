"""Maintenance by a policy: dead jobs, leftovers and all parts of ``magicfs maintain``, for a whole bucket."""
