"""What the command line does about catalogs."""
