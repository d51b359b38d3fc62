def note(*a, **k): pass
