"""The pages for users, taken apart: what a reader copies, what is set as code, where links lead."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from paths import REPOSITORY

_FENCE: Final = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_INDENTED: Final = re.compile(r"(?:^ {4}\S.*\n)+", re.MULTILINE)
_SPAN: Final = re.compile(r"`([^`\n]+)`")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)|\bsrc=\"([^\"]+)\"")
_HEADING: Final = re.compile(r"^#+ +(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """One Markdown file of the repository."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(REPOSITORY))

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """Everything but what stands in fences."""
        return _FENCE.sub("", self.text)

    def blocks(self, *languages: str) -> Iterator[str]:
        """What stands in fences of these languages, and, among those of none, what is indented as code."""
        for block in _FENCE.finditer(self.text):
            if block["language"] in languages:
                yield block["text"]
        if "" in languages:
            yield from _INDENTED.findall(self.prose)

    @cached_property
    def spans(self) -> list[str]:
        """What is set as code within the prose."""
        return [span.replace("\\|", "|") for span in _SPAN.findall(self.prose)]

    @cached_property
    def links(self) -> list[str]:
        return [target for found in _LINK.findall(_SPAN.sub("", self.prose)) for target in found if target]

    @cached_property
    def anchors(self) -> set[str]:
        """Where a link into this page can lead, as GitHub makes it from headings."""
        found: set[str] = set()
        for heading in _HEADING.findall(self.prose):
            plain = "".join(letter for letter in heading.lower() if letter in " -_" or _is_word(letter))
            slug, number = plain.replace(" ", "-"), 0
            while (unique := f"{slug}-{number}" if number else slug) in found:
                number += 1
            found.add(unique)
        return found


def _is_word(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "LN"


PAGES: Final = [
    Page(path) for path in (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *REPOSITORY.glob("docs/**/*.md"))
]
