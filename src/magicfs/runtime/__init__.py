"""What runs requests: many at once and at which pace, waited for in threads, in forks, until the end."""
