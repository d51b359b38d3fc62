"""Committers whose tasks write final files: direct and Stocator."""
