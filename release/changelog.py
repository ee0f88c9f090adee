"""Does the changelog say what the release is? `python -m release.changelog [TAG]` answers with a sentence, or silence.

The page follows Keep a Changelog: `## Unreleased` may stand on top, then one `## 1.2.3 - 2026-01-31` for each release,
newest first, each with at least one entry under a heading of the six that the format knows.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sparcal import __version__

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CHANGELOG.md"
UNRELEASED = "Unreleased"
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
RELEASED = re.compile(r"(\d+)\.(\d+)\.(\d+) - \d{4}-\d{2}-\d{2}")


def complaints(text: str, version: str, tag: str | None = None) -> list[str]:
    """What is wrong with the changelog `text` of `version`; with a tag, also what keeps it from being released."""
    parts = re.split(r"^## (.+)$", text, flags=re.M)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    found = [f"The section {title!r} is {wrong}." for title, body in sections.items() if (wrong := _wrong(title, body))]
    if UNRELEASED in list(sections)[1:]:
        found.append("'Unreleased' does not stand on top.")
    releases = [tuple(map(int, m.groups())) for title in sections if (m := RELEASED.fullmatch(title))]
    if releases != sorted(set(releases), reverse=True):
        found.append("The releases do not stand newest first, each once.")
    if releases and releases[0] > tuple(map(int, version.split("."))):
        found.append(f"The changelog has {'.'.join(map(str, releases[0]))}, which is newer than sparcal {version}.")
    if tag is not None and tag != f"v{version}":
        found.append(f"The tag of sparcal {version} is v{version}, got {tag}: set sparcal.__version__ or the tag.")
    if tag is not None and not next(iter(sections), "").startswith(f"{version} - "):
        found.append(f"The first section of a release is '{version} - YYYY-MM-DD', got {next(iter(sections), None)!r}.")
    return found


def cited_version(text: str) -> str | None:
    """The version that CITATION.cff names."""
    found = re.search(r"^version: (\S+)$", text, re.M)
    return found and found.group(1)


def _wrong(title: str, body: str) -> str | None:
    headings = re.findall(r"^### (.+)$", body, re.M)
    if title != UNRELEASED and not RELEASED.fullmatch(title):
        return "neither 'Unreleased' nor '1.2.3 - YYYY-MM-DD'"
    if unknown := [heading for heading in headings if heading not in KINDS]:
        return f"about {unknown[0]!r}, which is none of {', '.join(sorted(KINDS))}"
    if title != UNRELEASED and not re.search(r"^- \S", body, re.M):
        return "empty"
    return None


def main() -> int:
    """Complain on standard error."""
    tag = sys.argv[1] if len(sys.argv) > 1 else None
    found = complaints(PAGE.read_text(encoding="utf-8"), __version__, tag)
    cited = cited_version((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    if cited != __version__:
        found.append(f"CITATION.cff names {cited}, sparcal is {__version__}.")
    for sentence in found:
        print(sentence, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
