# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the pages that people read; tests/gate/rules.py runs them.

* A documented command means what it seems to mean: of `-e reason="new disks"` the shell leaves `reason=new disks`, and
  Ansible keeps `new` of that; `-e 'reason="new disks"'` is right. And the playbooks that it names are there.
* The files and folders that CONTRIBUTING.md and the pages in docs/docsite/rst name are there, and the house in
  CONTRIBUTING.md has all wings.
* A link from a page to a file of the collection, relative or by its address on GitHub, finds it, and the heading in it.
* The page `reference` names every playbook, role and module.
* A variable that the user may set for a playbook is explained on a page.
* The README is short: what the collection is, how to see it and use it, where to read on, and where to ask.
* The README of a role has a table of its variables and their defaults, see roles.py.
* The messages that the page `messages` explains are still said, see messages.py.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from .blocks import inline_code
from .messages import check_messages
from .roles import check_role_variables

GUIDE = Path("docs/docsite/rst")
REFERENCE = GUIDE / "reference.rst"
README_LINES = 150
# A path from the top of the collection, and a wing in the picture of the house. NAME stands for any name.
NAMED_PATH = re.compile(r"(?<![\w./-])(?:changelogs|docs|extensions|meta|playbooks|plugins|roles|tests)/[\w./-]*")
PICTURED_WING = re.compile(r"^ +(_\w+(?:/|\.py)) ", re.MULTILINE)
# Playbooks in texts that are about any of them.
ANY_PLAYBOOK = {"...", "NAME"}
RELATIVE_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]+)?\)")
OWN_ADDRESS = re.compile(r"https://github\.com/brine-virt/brine\.virt/(?:blob|tree)/main/([^)#>\s`]*)(#[^)>\s`]+)?")
# A variable that a playbook reads if somebody has set it; and one that a playbook or a role sets itself.
READ_IF_SET = re.compile(r"\b(virt_\w+) \| default\(")
SET = re.compile(r"^[\s-]*(?:(?:register|loop_var): )?(virt_\w+)(?::|$)", re.MULTILINE)
VARIABLE = re.compile(r"\bvirt_\w+")
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)


def pages() -> list[Path]:
    """Return all pages that people read, in Markdown and reStructuredText."""
    markdown = [*Path().glob("*.md"), *Path().glob("roles/*/README.md"), *Path("tests").rglob("*.md")]
    return sorted([*markdown, *GUIDE.glob("*.rst")])


def shell_words(text: str) -> list[str]:
    """Return the words of a command line as a shell splits it, or none when it is no command line."""
    with contextlib.suppress(ValueError):
        return shlex.split(text, comments=True)
    return []


def check_commands() -> Iterator[str]:
    """Yield each documented command whose `-e` loses words on the way to Ansible, or whose playbook is not there."""
    for source in [*pages(), *sorted(Path("playbooks").glob("*.yml"))]:
        rows = source.read_text(encoding="utf-8").split("\n")
        for line, command in ((line, part) for line, row in enumerate(rows, 1) for part in (row, *inline_code(row))):
            words = shell_words(command.lstrip("#$ "))
            for option, value in zip(words, words[1:], strict=False):
                as_ansible = [] if value.startswith(("@", "{", "[")) else shell_words(value)
                if option in ("-e", "--extra-vars") and any("=" not in word for word in as_ansible):
                    yield f"{source}:{line}: of -e {value!r} Ansible keeps the first word: quote it once more"
            for word in words if "ansible-playbook" in words else ():
                name = word.removeprefix("brine.virt.")
                known = name in ANY_PLAYBOOK or Path(f"playbooks/{name}.yml").exists()
                if word.startswith("brine.virt.") and not known:
                    yield f"{source}:{line}: there is no playbook {word}"


def check_named_paths() -> Iterator[str]:
    """Yield each file or folder that a page for those who work on the collection names, and that is not there.

    And each wing that CONTRIBUTING.md does not show.
    """
    for page in (Path("CONTRIBUTING.md"), *sorted(GUIDE.glob("*.rst"))):
        text = page.read_text(encoding="utf-8")
        for name in sorted({match[0].rstrip(".") for match in NAMED_PATH.finditer(text)}):
            if "NAME" not in name and not Path(name).exists():
                yield f"{page}: there is no {name}"
        for wing in PICTURED_WING.findall(text):
            if not list(Path("plugins").glob(f"*/{wing}")):
                yield f"{page}: there is no {wing} in plugins/module_utils or plugins/plugin_utils"
    house = Path("CONTRIBUTING.md")
    pictured = PICTURED_WING.findall(house.read_text(encoding="utf-8"))
    for folder in sorted(Path("plugins").glob("*_utils/_[!_]*/")):
        if folder.is_dir() and f"{folder.name}/" not in pictured:
            yield f"{house}: {folder.name}/ of {folder.parent} is not in the house"


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a Markdown page."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links() -> Iterator[str]:
    """Yield each link to a file of the collection, or to a heading, that is not there."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        links = [(Path(name), anchor) for name, anchor in OWN_ADDRESS.findall(text)]
        if page.suffix == ".md":
            links += [(page.parent / name if name else page, anchor) for name, anchor in RELATIVE_LINK.findall(text)]
        for target, anchor in links:
            if not target.exists():
                yield f"{page}: a link leads to {target}, which is not there"
            elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
                yield f"{page}: a link leads to {target}{anchor}, and there is no such heading"


def check_reference() -> Iterator[str]:
    """Yield each playbook, role and module that the page of the reference does not name."""
    text = REFERENCE.read_text(encoding="utf-8")
    wanted = {f"``{path.stem}``" for path in Path("playbooks").glob("*.yml")}
    wanted |= {f"`brine.virt.{path.name}#role`" for path in Path("roles").glob("*") if path.is_dir()}
    wanted |= {f"`brine.virt.{path.stem}#module`" for path in Path("plugins/modules").glob("*.py")}
    yield from (f"{REFERENCE}: {name} is missing" for name in sorted(wanted) if name not in text)


def check_variables() -> Iterator[str]:
    """Yield each variable that is the user's to set for a playbook, and that no page explains."""
    playbooks = sorted(Path("playbooks").rglob("*.yml"))
    tasks = [*playbooks, *Path("roles").glob("*/tasks/*.yml"), *Path("roles").glob("*/vars/*.yml")]
    known = {name for path in tasks for name in SET.findall(path.read_text(encoding="utf-8"))}
    known.update(*(VARIABLE.findall(page.read_text(encoding="utf-8")) for page in pages()))
    for source in playbooks:
        for name in sorted(set(READ_IF_SET.findall(source.read_text(encoding="utf-8"))) - known):
            yield f"{source}: {name} can be set, and is explained nowhere: it belongs in {REFERENCE}"


def check_readme() -> Iterator[str]:
    """Yield a README that is longer than it may be, or lacks what Ansible asks of an included collection."""
    text = Path("README.md").read_text(encoding="utf-8")
    count = len(text.splitlines())
    if count > README_LINES:
        yield f"README.md has {count} lines, at most {README_LINES}: the rest belongs to the pages in {GUIDE}"
    # https://docs.ansible.com/projects/ansible/devel/community/collection_contributors/collection_requirements.html
    if not re.search(r"^## Communication$", text, re.MULTILINE):
        yield "README.md has no section Communication"


def broken_in_pages() -> Iterator[str]:
    """Yield whatever is broken of all rules here."""
    checks = (
        check_commands,
        check_named_paths,
        check_links,
        check_reference,
        check_variables,
        check_role_variables,
        check_readme,
        check_messages,
    )
    for check in checks:
        yield from check()
