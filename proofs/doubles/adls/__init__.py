"""A double of Azure Data Lake Storage: an account with a hierarchical namespace, by both of its APIs.

It follows Microsoft's reference of the Blob service and of "Azure Data Lake Storage - Path", and its pages of
known issues. Everything is in memory. What it does not check are the signatures of keys and of SAS tokens.
"""
