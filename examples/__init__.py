"""Programs that publish with magicfs, each to be read and copied; ``flights`` is the demo."""
