"""Committers: where attempts write, what a committed task leaves, how a job publishes it."""
