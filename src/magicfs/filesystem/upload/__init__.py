"""The delayed upload: a stream of bytes into parts that nobody sees yet.

``stream`` holds one multipart upload and its parts in flight, on the store's loop; ``bodies`` cuts what is
written into parts; ``files`` are what writers hold. What a finished upload
leaves behind, a ``.pending`` file or an entry in memory, is the ``Recorder``'s business.

Memory: a body is filled in the writer's thread, then handed over whole and kept readable until the store
has acknowledged it. So at most ``PARTS_IN_FLIGHT`` + 1 parts of a file exist at once. ``memory`` bounds what
all files of the process hold. What lies in memory already is sent from there.
"""

from magicfs.filesystem.upload.files import AsyncDelayedFile, DelayedFile
from magicfs.filesystem.upload.stream import PARTS_IN_FLIGHT, Recorder, Upload, Uploaded

__all__ = ["PARTS_IN_FLIGHT", "AsyncDelayedFile", "DelayedFile", "Recorder", "Upload", "Uploaded"]
