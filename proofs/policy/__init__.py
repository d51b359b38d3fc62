"""What each role asks of S3; and that ``magicfs policy`` allows it and nothing else."""
