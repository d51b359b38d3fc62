"""Azure's Blob service, and Azure Data Lake Storage."""
