"""Every promise of every committer, tried: the table of ``docs/guarantees.md`` comes out of this."""
