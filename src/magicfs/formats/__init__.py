"""The files that outlive programs: what they look like in bytes, and what must hold of them.

One module per file: ``pending``, ``pendingset``, ``success``, with ``statistics`` inside all three. Field
names, their order and their meaning are Hadoop's, so that a Hadoop job and a magicfs job can finish each
other's work. Reading is strict, since whoever may write to the bucket may have written the file: a size limit
first, then strict JSON, then every field by its type. Fields of others are kept and written back.

The room is pure: bytes in, values out, and back. Times and host names are passed in. Every reader raises
``FormatError`` for what is malformed, inconsistent, or written by a newer magicfs; it names the field, such
as ``files[3].key``. Every writer raises ``UsageError`` for text that UTF-8 cannot hold. ``unknown`` holds the
fields of others; they are written back behind ours. ``…_ms`` are milliseconds since the epoch.
"""
