"""The manifest committer, Hadoop's ``ManifestCommitter``, for stores that rename in one step.

Tasks write files below ``_temporary`` and persist a manifest of them; the job commit reads the manifests,
makes the directories and renames the files. ``docs/manifest-committer.md`` describes it in words.
"""
