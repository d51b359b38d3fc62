"""Files of this machine, or of a filesystem that is mounted here."""
