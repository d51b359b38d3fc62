"""The manifest committer, in stages that each run and are tested on their own.

Tasks write files below ``_temporary`` and persist a manifest of them; the job commit reads the manifests,
makes the directories and renames the files. Hadoop's ``ManifestCommitter``, for stores that rename in one
step. ``docs/manifest-committer.md`` describes it in words.
"""
