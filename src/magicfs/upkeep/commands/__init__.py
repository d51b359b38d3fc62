"""``magicfs maintain``, and the parts of it that end dead jobs and remove leftovers."""
