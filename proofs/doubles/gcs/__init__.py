"""A double of Google Cloud Storage, for tests: the JSON API, XML multipart uploads, folders.

It follows Google's documentation of the service and keeps everything in memory.
``proofs.doubles.gcs_server`` starts it as a process.
"""
