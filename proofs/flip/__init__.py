"""Jobs that publish a whole destination at once: worlds that are cut, and readers of real stores."""
