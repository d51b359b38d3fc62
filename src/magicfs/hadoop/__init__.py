"""Hadoop's configuration."""
