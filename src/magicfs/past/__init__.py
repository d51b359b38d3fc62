"""Publications of the past: what they were, going back to one, taking files out, and what is kept of them.

``history`` lists them, ``tags`` names them, ``rollback`` publishes one again, ``drop`` takes files out,
``expire`` deletes what was kept for a time, and ``compact`` sums older manifests up and writes the log.
"""
