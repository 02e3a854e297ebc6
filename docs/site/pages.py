"""Add pages from outside `docs/` to the site of MkDocs, and rewrite the links."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
TOP = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Page at the top of the repository -> its name on the site."""

_LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages at the top of the repository and those of the benchmarks."""
    beside = {name: ROOT / page for page, name in TOP.items()}
    beside |= {str(page.relative_to(ROOT)): page for page in sorted((ROOT / "benchmarks").glob("*/*.md"))}
    for name, page in beside.items():
        files.append(File.generated(config, name, content=page.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page from its place in the repository to its place on the site."""
    there = {name: source for source, name in TOP.items()}
    name = page.file.src_uri
    source = there.get(name, name if name.startswith("benchmarks/") else f"docs/{name}")

    def on_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[2]))
        if target.startswith("docs/"):
            target = target.removeprefix("docs/")
        target = TOP.get(target, target)
        return f"{link[1]}{posixpath.relpath(target, posixpath.dirname(name) or '.')}{link[3]}"

    return _LINK.sub(on_site, markdown)
