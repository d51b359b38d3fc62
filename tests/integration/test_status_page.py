"""The page of ``magicfs status --html`` in a real Chromium, as wide as a desk and as a phone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from magicfs.operate.page import page_of
from magicfs.operate.status import DatasetStatus, Partition, Step, UnfinishedJob
from website.check import seen

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
EVIL = '"><script>document.title="ran"</script><img src=http://evil.example/x onerror=alert(1)>'
DAY = 86_400.0

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is here")


def full() -> DatasetStatus:
    now = 1_795_000_000.0
    jobs = tuple(
        UnfinishedJob(f"{n}-{EVIL}", "open", now - n * DAY, EVIL, EVIL, "magicfs recover x" + " y" * 80)
        for n in range(3)
    )
    steps = tuple(Step(f"{n}", "append", now - n * DAY, n, n * 1000, n % 7 * 300, n) for n in range(60))
    parts = tuple(
        Partition(f"day=2026-11-{n:02}/region={EVIL}", n, 10_000 // (n + 1), now - n * DAY)
        for n in range(200)
    )
    return DatasetStatus("s3://bucket/" + EVIL, now, jobs=jobs, steps=steps, partitions=parts, behind=(EVIL,))


@pytest.mark.parametrize("width", [1200, 390])
def test_it_is_shown_whole_without_a_word_of_the_console(tmp_path: Path, width: int) -> None:
    page = tmp_path / "page.html"
    page.write_text(page_of(full()))
    size = f"--window-size={width},1600"
    assert CHROMIUM is not None
    said, made = seen(CHROMIUM, page.as_uri(), size, "--dump-dom")
    assert said == [], "no error, no warning, nothing blocked"
    assert "<title>s3://bucket/" in made, "no script has run"
    picture = tmp_path / "page.png"
    seen(CHROMIUM, page.as_uri(), size, f"--screenshot={picture}")
    with Image.open(picture) as shown:
        colors = {rgb for _, rgb in shown.convert("RGB").getcolors(1 << 24) or ()}
    assert {(0x2F, 0x6F, 0xB5), (0xC2, 0x57, 0x1A)} <= colors, "bars are drawn"


def test_nothing_is_wider_than_a_narrow_window(tmp_path: Path) -> None:
    """Measured by the browser itself, in the narrowest window that it makes."""
    page = page_of(full()).replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'")
    probe = "<script>document.body.dataset.w=document.documentElement.scrollWidth</script></body>"
    (tmp_path / "page.html").write_text(page.replace("</body>", probe))
    assert CHROMIUM is not None
    _, made = seen(CHROMIUM, (tmp_path / "page.html").as_uri(), "--window-size=500,900", "--dump-dom")
    found = re.search(r'data-w="(\d+)"', made)
    assert found is not None
    assert int(found[1]) <= 500
