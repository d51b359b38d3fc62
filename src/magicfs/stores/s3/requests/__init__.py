"""Requests to S3 that magicfs writes, signs, sends and reads itself, and the rule when it leaves them to
aiobotocore.
"""
