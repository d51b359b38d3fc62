"""Searches that must find their page among the first five, asked of the site's own search in a browser."""

from __future__ import annotations

import json

__all__ = ["SEARCHES", "asking", "lost"]

SEARCHES = {
    "adopt": "commands",
    "audit": "audit",
    "awswrangler": "coming-from",
    "backfill": "overwriting",
    "checkpoint": "checkpoints",
    "CommitOutcomeUnknown": "troubleshooting",
    "Ctrl-C": "recovery",
    "delayed upload": "glossary",
    "duckdb": "engines",
    "exit status": "commands",
    "expire": "datasets",
    "glue": "catalogs",
    "install": "install",
    "keep": "history",
    "lifecycle": "s3",
    "mapInPandas": "spark",
    "permissions": "s3",
    "overwrite_partitions": "overwriting",
    "rollback": "history",
    "slurm": "dask-ray-daft",
}
_FIRST = 5
_PAGE = """<!doctype html><meta charset="utf-8">
<iframe id="site" src="FIRST" width="1280" height="900"></iframe>
<img src="/held"><script>
const wait = ms => new Promise(done => setTimeout(done, ms));
async function ask() {
  const found = {};
  const site = document.getElementById("site");
  await new Promise(done => site.onload = done);
  const page = site.contentDocument, input = page.querySelector("[data-md-component=search-query]");
  const links = () => [...page.querySelectorAll(".md-search-result__link")].map(one => one.href);
  page.getElementById("__search").checked = true;
  page.getElementById("__search").dispatchEvent(new Event("change"));
  for (const query of QUERIES) {
    const before = links().join();
    input.focus();
    input.value = query;
    input.dispatchEvent(new Event("keyup", {bubbles: true}));
    const old = () => !links().length || links().join() === before;
    for (let times = 0; times < 100 && old(); times++) await wait(100);
    await wait(200);
    found[query] = links();
  }
  return found;
}
ask().catch(error => ({"": [String(error)]})).then(found =>
  fetch("/found", {method: "POST", body: JSON.stringify(found)}));
</script>"""


def asking(first: str) -> str:
    """A page that asks the site with this first page, and sends what it found to ``/found``.

    It is loaded when ``/held`` is answered.
    """
    page = _PAGE.replace("FIRST", first)
    return page.replace("QUERIES", json.dumps(list(SEARCHES)))


def lost(found: dict[str, list[str]]) -> list[str]:
    """Searches that did not find their page."""
    wrong = []
    for query, page in SEARCHES.items():
        names: list[str] = []
        for link in found.get(query, found.get("", [])):
            name = link.partition("?")[0].partition("#")[0].rpartition("/")[2].removesuffix(".html")
            if name not in names:
                names.append(name)
        if page not in names[:_FIRST]:
            wrong.append(f"the search for {query!r} finds {names[:_FIRST]}, not {page!r}")
    return wrong
