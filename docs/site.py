#!/usr/bin/env python3
"""Builds the documents as a site, and checks its links: docs/site.py FOLDER. Needs mdbook.

The book has the layout of the repository, so links between pages, and to pages outside of `docs`, work in both. Its contents are
docs/SUMMARY.md and, behind it, all other pages of the repository.
"""

import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines()]


def title(page):
    return next(line for line in page.read_text().splitlines() if line.startswith("# "))[2:].replace("`", "")


def stage(source):
    """Copies pages, pictures and the files that pages link to, and writes the table of contents."""
    pages = tracked("*.md")
    linked = [page.parent / urllib.parse.urlparse(link).path for page in pages for link in LINK.findall(page.read_text())]
    files = [path.resolve() for path in linked if "://" not in str(path) and path.is_file()]
    for path in {*pages, *tracked("docs/*.svg", "docs/*.png"), *files}:
        to = source / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    summary = (ROOT / "docs/SUMMARY.md").read_text().removeprefix("# Summary\n")
    others = [page for page in pages if not page.is_relative_to(ROOT / "docs") and page != ROOT / "README.md"]
    (source / "SUMMARY.md").write_text(
        "# Summary\n\n[ndp-cosim](README.md)\n" + summary.replace("](", "](docs/") + "\n# Elsewhere in the repository\n\n"
        + "".join(f"- [{title(page)}]({page.relative_to(ROOT)})\n" for page in others))


class Page(html.parser.HTMLParser):
    """Names and relative links of a page."""

    def __init__(self, path):
        super().__init__()
        self.names, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names.add(attributes.get("id"))
        link = attributes.get("href") or attributes.get("src")
        if link and not urllib.parse.urlparse(link).scheme:
            self.links.append(link)


def broken(book):
    """Links that lead nowhere."""
    pages = {path: Page(path) for path in book.rglob("*.html") if path.name not in ("404.html", "print.html", "toc.html")}
    for path, page in pages.items():
        for link in page.links:
            url = urllib.parse.urlparse(link)
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            there = target.is_file() and (target not in pages or not url.fragment or url.fragment in pages[target].names)
            if not there:
                yield f"{path.relative_to(book)}: {link}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    stage(folder / "src")
    shutil.copy(ROOT / "docs/book.toml", folder)
    subprocess.run(["mdbook", "build", folder], check=True)
    wrong = sorted(set(broken(folder / "book")))
    sys.exit("\n".join(wrong) if wrong else None)


if __name__ == "__main__":
    main()
