"""What a person sees of a bucket, and keeps in order there: uploads, checks, and files of jobs to read."""
