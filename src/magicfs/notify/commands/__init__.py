"""What the command line does about notifications."""
