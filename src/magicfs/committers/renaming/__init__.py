"""What committers share whose tasks write files below ``_temporary``, which the job commit makes visible.

Tasks persist a manifest of what they wrote, in the form of Hadoop's ``ManifestCommitter``; the job object's
executor renames the files, or copies them where the store has no rename.
"""
