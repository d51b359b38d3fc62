"""``python -m website.check SITE``: every page in a real Chromium, every link and anchor, no other host.

The site is one of ``website.versions``. Chromium can reach nothing but the loopback address. So what a page
asks of another host is an error in its console, as is what the site does not have.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from website.searches import asking, lost
from website.versions import LATEST, VERSION

_PICTURES = ("index.html", "spark.html", "recovery.html", "api/job.html")
_WIDTHS = (1280, 390)
_CONSOLE = re.compile(r":CONSOLE(?::\d+)?\S*\] (.*)")
_HOST = "127.0.0.1"
_TIME = "--virtual-time-budget=3000"


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {one for one in (given.get("id"), given.get("name")) if one}
        if tag == "a" and (target := given.get("href")):
            self.links.append(target)
        elif target := given.get("src") or (given.get("href") if tag == "link" else None):
            self.loads.append(target)


def broken(site: Path) -> list[str]:
    """Links, anchors and files that are not there, and what is loaded from another host."""
    pages = {path.relative_to(site).as_posix(): Page(path.read_text()) for path in site.rglob("*.html")}
    wrong = []
    for name, page in pages.items():
        if name.endswith("404.html"):  # its links begin at the root of a host
            continue
        for target in [*page.links, *page.loads]:
            if urlsplit(target).scheme or target.startswith("//"):
                if target in page.loads and not target.startswith("data:"):
                    wrong.append(f"{name} loads {target}")
                continue
            path, anchor = urldefrag(urljoin(name, target))
            path = unquote(path) or name
            if not (site / path).exists():
                wrong.append(f"{name} links to {target}")
            elif anchor and path in pages and unquote(anchor) not in pages[path].anchors:
                wrong.append(f"{name} links to {target}, which has no such anchor")
    return wrong


class _Site(SimpleHTTPRequestHandler):
    found: ClassVar[dict[str, list[str]]] = {}
    asked: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/asking":
            self._answer(asking(f"/{LATEST}/index.html").encode(), "text/html")
        elif self.path == "/held":
            self.asked.wait(100)
            self._answer(b"", "image/png")
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self.found.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.asked.set()
        self._answer(b"", "text/plain")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        pass


def seen(browser: str, url: str, *options: str) -> tuple[list[str], str]:
    """What Chromium's console says of a page, and the page as its scripts have made it."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {_HOST}", "--enable-logging=stderr"]
    command += [*options, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)  # noqa: S603
    return _CONSOLE.findall(done.stderr), done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path, metavar="DIRECTORY", help="of four pages, in two widths")
    given = parser.parse_args(arguments)
    wrong, newest = broken(given.site), given.site / VERSION
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no chromium is here: apt install chromium")
    handler = partial(_Site, directory=str(given.site))
    with ThreadingHTTPServer((_HOST, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://{_HOST}:{server.server_port}"
        pages = sorted(f"{VERSION}/{path.relative_to(newest).as_posix()}" for path in newest.rglob("*.html"))
        for page in ["index.html", f"{LATEST}/index.html", *pages]:
            said, made = seen(browser, f"{home}/{page}", _TIME, "--dump-dom")
            wrong += [f"{page}: {line}" for line in said]
            if "md-version__link" not in made and not page.endswith("404.html"):
                wrong.append(f"{page} offers no other version")
        seen(browser, f"{home}/asking", "--dump-dom")
        wrong += lost(_Site.found)
        for page in _PICTURES if given.pictures else ():
            for width in _WIDTHS:
                file = (
                    given.pictures.resolve() / f"{page.replace('/', '-').removesuffix('.html')}-{width}.png"
                )
                seen(
                    browser,
                    f"{home}/{VERSION}/{page}",
                    _TIME,
                    f"--screenshot={file}",
                    f"--window-size={width},1600",
                )
        server.shutdown()
    for line in wrong:
        print(f"WRONG: {line}")  # noqa: T201
    print(f"{len(pages)} pages, {len(wrong)} wrong")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
