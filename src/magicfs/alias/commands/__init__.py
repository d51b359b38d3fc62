"""What the command line does about aliases."""
