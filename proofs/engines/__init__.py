"""The family exam of engines: each publishes the same rows, and meets the same deaths and errors."""
