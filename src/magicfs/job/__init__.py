"""Job and Task: the face for every engine."""
