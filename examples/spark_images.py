"""Publish thumbnails of images with Pillow on Spark: ``python -m examples.spark_images s3://bucket/thumbnails``.

A function of yours may write anything through its task: here PNG files, one for each row. The frame holds the
images themselves, as ``spark.read.format("binaryFile")`` reads them; these are drawn by Spark.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pandas as pd
from PIL import Image

import magicfs
from examples.flights.session import local_session
from magicfs.spark import COMMIT_SCHEMA, collect_commits, pandas_function

SIZE = (16, 16)


def draw(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Make one image of each row, as if it had been read from somewhere."""
    for frame in frames:
        contents = []
        for number in frame["id"]:
            picture = io.BytesIO()
            Image.new("RGB", (64, 48), (number * 20 % 256, 80, 120)).save(picture, "PNG")
            contents.append(picture.getvalue())
        yield pd.DataFrame({"name": [f"picture-{number}" for number in frame["id"]], "content": contents})


def write(task: magicfs.Task, frames: Iterator[pd.DataFrame]) -> None:
    """Write the thumbnails of one partition; runs on an executor."""
    for frame in frames:
        for name, content in zip(frame["name"], frame["content"], strict=True):
            image = Image.open(io.BytesIO(content))
            image.thumbnail(SIZE)
            with task.filesystem.open(f"{task.path}/{name}.png", "wb") as file:
                image.save(file, "PNG")
        task.count("records_written", len(frame))


def main(url: str) -> None:
    """Run the job and print its report."""
    spark = local_session(name="thumbnails")
    images = spark.range(0, 12, 1, 3).mapInPandas(draw, "name string, content binary")
    job = magicfs.Job(url, mode="append").setup()
    try:
        report = job.commit(collect_commits(images.mapInPandas(pandas_function(job, write), COMMIT_SCHEMA)))
    except BaseException:
        job.abort()
        raise
    print(report)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
