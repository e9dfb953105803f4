# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of this house that no ready-made tool knows.

Run as `python -m tests.gate.rules` from the top of the collection.

* A wing of `plugins/module_utils` imports only from itself and from wings on lower floors, and never in a circle.
* Rooms import one another by relative names, which a reader takes in at once; modules and plugins by full ones.
* The folders inside a wing import one another in one direction only, as far as they do so already.
* A folder holds at most 14 Python files: a family with one prefix is a folder of its own. plugins/modules is flat,
  because a module's folder would be part of the name that tasks call it by.
* What is asked often takes few files along: the import closure of some plugins has a limit.
* Unit tests import every room of `plugins/module_utils` and `plugins/plugin_utils`, or another one of its folder that
  imports it, as far as they do so already: most faults are to be found without the lab.
* Unit tests of modules and module_utils import nothing of Ansible but `ansible.module_utils`, by no way round: they run
  on a hypervisor's Python too, for which ansible-test has nothing else.
* XML is parsed by `parse_xml` alone: lxml's default parser resolves entities, and Python's own believe any DTD.
* A program that opens disks is started in one file, which tells it the disk's format; so does what libvirt resizes.
* `import libvirt` stands in one file, and so does `import lxml`: each is guarded there for a host that lacks it.
* The action group `virt` names exactly the modules with the option `uri`: defaults for the group are mostly that, and a
  module without it would refuse them. ansible-test does not check the group.
* A file with several filters has no DOCUMENTATION of its own: ansible-doc would show it for each of them, and never the
  file beside it that is called after the filter.
* Nothing is assigned to two names at once at the top of a plugin: ansible-doc stumbles over it on its way to the
  DOCUMENTATION, and ansible-test takes its warning for an error.
* What people read keeps the rules of tests/gate/docsite/pages.py.
* A role has a README, an argument spec and a scenario of molecule; so has a playbook a scenario, which runs it. A
  playbook's name is an identifier, or its full name cannot be run.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import sys
import typing as t
from collections.abc import Iterator
from pathlib import Path

import yaml

from .docsite.pages import broken_in_pages

COLLECTION = "ansible_collections.brine.virt."
PREFIX = f"{COLLECTION}plugins."
MODULE_UTILS = Path("plugins/module_utils")
MOLECULE = Path("extensions/molecule")
TEMPLATED = ("playbooks", "roles")
LIBVIRT_HOME = MODULE_UTILS / "_host/connection.py"
LXML_HOME = Path("plugins/module_utils/_base/xml.py")
PARSERS = {
    f"etree.{name}"
    for name in (
        *("XML", "XMLDTDID", "XMLID", "XMLParser", "XMLPullParser", "ETCompatXMLParser", "HTML", "HTMLParser"),
        *("HTMLPullParser", "fromstring", "fromstringlist", "iterparse", "parse", "set_default_parser"),
    )
}
SCHEMA_PARSER = (Path("plugins/module_utils/_host/machines/schema.py"), "etree.parse")
HOMES = {
    "libvirt": LIBVIRT_HOME,
    "libvirt_qemu": MODULE_UTILS / "_host/agent.py",
    "libvirtmod": LIBVIRT_HOME,
    "lxml": LXML_HOME,
}
# What else there is to parse XML with; and what is beside it, and only writes.
OTHER_PARSERS = ("xml", "defusedxml", "xmltodict")
XML_WRITER = "xml.sax.saxutils"
DISK_OPENERS = {
    "qemu-img": Path("plugins/module_utils/_base/qemu_img.py"),
    "guestfish": Path("plugins/module_utils/_seeding/guestfs.py"),
    ".resize": Path("plugins/module_utils/_host/storage/volumes.py"),
}
# The wings of plugins/module_utils and their floors. Wings on one floor do not know each other.
FLOORS = {
    "_base": 1,
    "_model": 2,
    "_host": 3,
    "_network": 3,
    "_seeding": 3,
    "_tls": 3,
    "_operations": 4,
    "_module": 5,
}
# More Python files than a reader can take in at once are two folders.
MOST_FILES = 14
# Where ansible-test puts what it needs and writes, whole virtual environments among it.
OUTPUT = Path("tests", "output")
# Where Ansible looks for a plugin by its file name alone.
FLAT = {Path("plugins/modules"), Path("plugins/action")}
# The most files of ours that Ansible may send along with a module, or that a plugin may read in: its import closure in
# plugins/, without itself.
CLOSURES = {
    "modules/virt_info": 15,
    "modules/virt_host_info": 24,
    "inventory/domains": 17,
    "modules/virt_init": 131,
    "modules/virt_image": 62,
    "modules/virt_claim": 24,
    # Between hypervisors, and between the pools of one.
    "modules/virt_migrate": 73,
}
# Rooms that unit tests reach only by way of another folder (those of `_operations` by its `machines`, which makes and
# changes whole machines). One that gets a test of its own goes from this list.
BY_ANOTHER_FOLDER = {
    "module_utils/_model/spec/profiles/salt_words.py",
    "module_utils/_model/yaml_text.py",
    "plugin_utils/_inventory/connection_vars.py",
    "plugin_utils/_inventory/machine_hosts.py",
    "plugin_utils/_reports/changes.py",
}
# What is tested on the Python of hypervisors.
TESTS_OF_HYPERVISORS = (Path("tests/unit/plugins/module_utils"), Path("tests/unit/plugins/modules"))
TOP_FLOOR = 99
# A file that lies in a wing itself, and in no folder of it: the wing's folder and its own name.
WING_FILE_PARTS = 2
URI_FRAGMENT = "brine.virt._uri"
NO_GROUP_FRAGMENT = "brine.virt._attributes.no_group"


@functools.cache
def imported_modules(source: Path) -> tuple[tuple[int, str], ...]:
    """Return (line, dotted name) of each import in a Python file; for `from a import b` both a and a.b."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"), str(source))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append((node.lineno, node.module))
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = f"{COLLECTION}{'.'.join(source.parts[: -node.level])}.{node.module or ''}".rstrip(".")
            found.append((node.lineno, module))
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return tuple(found)


def wing_of(parts: tuple[str, ...]) -> str | None:
    """Return the wing of a file or module below plugins/ (without .py), or None when it is not in module_utils."""
    return parts[1] if parts[0] == "module_utils" and len(parts) > 1 else None


def check_floors() -> Iterator[str]:
    """Yield what imports upwards, sideways or in a circle."""
    graph: dict[Path, set[Path]] = {}
    for source in sorted(Path("plugins").rglob("*.py")):
        wing = wing_of(source.relative_to("plugins").with_suffix("").parts)
        if wing is not None and wing not in FLOORS and wing != "__init__":
            yield f"{source}: the wing {wing} has no floor in {Path(__file__).name}"
            continue
        floor = TOP_FLOOR if wing is None else FLOORS.get(wing, 0)
        for line, name in imported_modules(source):
            if not name.startswith(PREFIX):
                continue
            parts = tuple(name.removeprefix(PREFIX).split("."))
            target = Path("plugins", *parts).with_suffix(".py")
            if target.exists():
                graph.setdefault(source, set()).add(target)
            other = wing_of(parts)
            other_floor = TOP_FLOOR if parts[0] != "module_utils" else FLOORS.get(other or "", 0)
            if wing is not None and wing != other and other_floor >= floor:
                yield f"{source}:{line}: {wing} (floor {floor}) may not import {name}: only lower floors"
    yield from check_circles(graph)
    yield from check_folder_circles(graph)


def place_in_wing(source: Path) -> Path:
    """Return what a file counts as inside its wing: its folder, or itself where it lies in none."""
    place = source.relative_to(MODULE_UTILS)
    return place.parent if len(place.parts) > WING_FILE_PARTS else place


def check_relative() -> Iterator[str]:
    """Yield each import of the collection in a room by its full name, and each relative one in what Ansible loads."""
    for source in sorted(Path("plugins").rglob("*.py")):
        is_room = bool({"module_utils", "plugin_utils"} & set(source.parts))
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom):
                continue
            if node.level > 0 and not is_room:
                yield f"{source}:{node.lineno}: modules and plugins import by full names"
            if node.level == 0 and is_room and (node.module or "").startswith(COLLECTION):
                yield f"{source}:{node.lineno}: rooms import one another by relative names"


def check_folder_circles(graph: dict[Path, set[Path]]) -> Iterator[str]:
    """Yield each folder inside a wing from which imports lead back to it."""
    inner: dict[Path, set[Path]] = {}
    for source, targets in graph.items():
        for target in targets:
            if MODULE_UTILS in source.parents and MODULE_UTILS in target.parents:
                here, there = place_in_wing(source), place_in_wing(target)
                if here != there:
                    inner.setdefault(here, set()).add(there)
    yield from (f"{MODULE_UTILS}/{circle}" for circle in check_circles(inner))


def check_circles(graph: dict[Path, set[Path]]) -> Iterator[str]:
    """Yield each file or folder from which imports lead back to itself."""
    for start in sorted(graph):
        seen: set[Path] = set()
        ahead = list(graph[start])
        while ahead:
            here = ahead.pop()
            if here == start:
                yield f"{start}: its imports lead back to itself"
                break
            if here not in seen:
                seen.add(here)
                ahead += graph.get(here, set())


def check_folders() -> Iterator[str]:
    """Yield each folder that holds more Python files than it may, and each that is called like a file beside it."""
    for top in ("plugins", "tests"):
        for folder in sorted({path.parent for path in Path(top).rglob("*.py") if OUTPUT not in path.parents}):
            count = len(list(folder.glob("*.py")))
            if count > MOST_FILES and folder not in FLAT:
                yield f"{folder}: {count} Python files, at most {MOST_FILES}: make a folder of a family among them"
            if folder.with_suffix(".py").exists():
                yield f"{folder}: Ansible would take this folder for the file {folder.name}.py beside it"


def imported_files(source: Path) -> set[Path]:
    """Return the files of plugins/ that a file imports."""
    names = (name.removeprefix(PREFIX) for _line, name in imported_modules(source) if name.startswith(PREFIX))
    files = (Path("plugins", *name.split(".")).with_suffix(".py") for name in names)
    return {file for file in files if file.exists()}


def check_tested() -> Iterator[str]:
    """Yield each room that no unit test imports, itself or through its own folder, and what needs no exception."""
    reached: set[Path] = set()
    ahead = [file for test in sorted(Path("tests/unit").rglob("*.py")) for file in imported_files(test)]
    while ahead:
        here = ahead.pop()
        if here not in reached:
            reached.add(here)
            ahead += [file for file in imported_files(here) if file.parent == here.parent]
    rooms = [*MODULE_UTILS.rglob("*.py"), *Path("plugins/plugin_utils").rglob("*.py")]
    missing = {str(room.relative_to("plugins")) for room in rooms if room not in reached} - {"module_utils/__init__.py"}
    for room in sorted(missing - BY_ANOTHER_FOLDER):
        yield f"plugins/{room}: no unit test imports it: write one where it stands, below tests/unit/plugins"
    for room in sorted(BY_ANOTHER_FOLDER - missing):
        yield f"plugins/{room}: take it out of BY_ANOTHER_FOLDER in {Path(__file__).name}: it is tested, or gone"


def check_tests_of_hypervisors() -> Iterator[str]:
    """Yield each test for a hypervisor's Python that needs what only a controller has."""
    at_fault: dict[Path, str] = {}
    for folder in TESTS_OF_HYPERVISORS:
        for test in sorted(folder.rglob("test_*.py")):
            for file in sorted({test, *closure(test, prefix=COLLECTION)}):
                if file not in at_fault:
                    names = (name for _line, name in imported_modules(file) if name.startswith("ansible."))
                    at_fault[file] = next((name for name in names if not name.startswith("ansible.module_utils")), "")
                if at_fault[file]:
                    yield f"{test}: {file} imports {at_fault[file]}, which is not there on a hypervisor's Python"


def closure(start: Path, *, prefix: str = PREFIX) -> set[Path]:
    """Return the files of the collection, those below `prefix`, that a file imports, and those that these import."""
    found: set[Path] = set()
    ahead = [start]
    while ahead:
        for _line, name in imported_modules(ahead.pop()):
            if name.startswith(prefix):
                target = Path(*name.removeprefix(COLLECTION).split(".")).with_suffix(".py")
                if target.exists() and target not in found and target != start:
                    found.add(target)
                    ahead.append(target)
    return found


def check_closures() -> Iterator[str]:
    """Yield each plugin of CLOSURES that takes more files along than it may."""
    for name, most in CLOSURES.items():
        count = len(closure(Path("plugins", f"{name}.py")))
        if count > most:
            yield f"plugins/{name}.py takes {count} files along, at most {most}: see what it has begun to import"


def check_homes() -> Iterator[str]:
    """Yield each import of libvirt and lxml outside its one home, and of other parsers of XML anywhere."""
    for source in sorted(Path("plugins").rglob("*.py")):
        for line, name in imported_modules(source):
            library = name.split(".")[0]
            if source != HOMES.get(library, source):
                yield f"{source}:{line}: {library} is imported in {HOMES[library]} only"
            if library in OTHER_PARSERS and not name.startswith(XML_WRITER):
                yield f"{source}:{line}: {name} is not imported: call parse_xml of {LXML_HOME}"


def check_parsers() -> Iterator[str]:
    """Yield each use of a parser of lxml's own outside its home; the schema's file on disk is the one exception."""
    for source in sorted(Path("plugins").rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"), str(source))):
            if source != LXML_HOME and isinstance(node, ast.Attribute):
                # Under whatever name it is called then.
                used = ast.unparse(node)
                if used in PARSERS and (source, used) != SCHEMA_PARSER:
                    yield f"{source}:{node.lineno}: {used} is for {LXML_HOME} only; call parse_xml"


def check_disk_openers() -> Iterator[str]:
    """Yield each place that starts a program on a disk, or has libvirt resize one, outside its one home.

    Left to themselves they go by the disk's first bytes, which its guest may have written.
    """
    for source in sorted(Path("plugins").rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"), str(source))):
            if isinstance(node, ast.Constant):
                word = str(node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                word = f".{node.func.attr}"
            else:
                continue
            home = DISK_OPENERS.get(word)
            if home is not None and source != home:
                yield f"{source}:{node.lineno}: {word} is for {home} only, which knows the format"


def documentation(module: Path) -> dict[str, t.Any]:
    """Return the DOCUMENTATION of a module, or an empty one; ansible-test tells what is wrong with it."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DOCUMENTATION":
            with contextlib.suppress(ValueError, yaml.YAMLError):
                return dict(yaml.safe_load(ast.literal_eval(node.value)))
    return {}


def check_action_group() -> Iterator[str]:
    """Yield what the action group `virt` wrongly names or lacks, and what documentation says wrong of it."""
    runtime = yaml.safe_load(Path("meta/runtime.yml").read_text(encoding="utf-8"))
    named = set(runtime["action_groups"]["virt"])
    there = {path.stem: documentation(path) for path in sorted(Path("plugins/modules").glob("virt_*.py"))}
    for name in sorted(named - set(there)):
        yield f"meta/runtime.yml: {name} is in the action group, and is no module"
    for name, text in there.items():
        fragments = text.get("extends_documentation_fragment", [])
        has_uri = URI_FRAGMENT in fragments
        own = text.get("attributes", {}).get("action_group", {}).get("support", "full")
        said = own != "none" and NO_GROUP_FRAGMENT not in fragments
        if has_uri != (name in named):
            wanted = "has the option uri and is not" if has_uri else "does not have the option uri and is"
            yield f"meta/runtime.yml: {name} {wanted} in the action group"
        if has_uri != said:
            yield f"plugins/modules/{name}.py: the attribute action_group does not fit: the option uri decides"


def check_filter_documentation() -> Iterator[str]:
    """Yield each file of filters whose DOCUMENTATION is not that of its only filter."""
    for source in sorted(Path("plugins/filter").glob("*.py")):
        tree = ast.parse(source.read_text(encoding="utf-8"))
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "filters")
        tables = (node for function in functions for node in ast.walk(function) if isinstance(node, ast.Dict))
        names = [ast.literal_eval(key) for table in tables for key in table.keys if key is not None]
        if documentation(source) and names != [source.stem]:
            yield f"{source}: its DOCUMENTATION would be shown for {', '.join(names)}: put each into NAME.yml"


def check_assignments() -> Iterator[str]:
    """Yield each line at the top of a plugin that assigns to several names at once."""
    for source in sorted(path for path in Path("plugins").glob("*/*.py") if not path.parent.name.endswith("_utils")):
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and any(isinstance(target, ast.Tuple) for target in node.targets):
                yield f"{source}:{node.lineno}: ansible-doc cannot read an assignment to several names at once"


# Ansible's filters for sets, and what may come of their result: its order is another one in each run.
_SET_FILTER = re.compile(r"\|\s*(union|intersect|difference|symmetric_difference)\(")
_AFTER_SETS = re.compile(r"[\s)]*\|\s*(sort|length|union|intersect|difference|symmetric_difference)\b")


def check_orders() -> Iterator[str]:
    """Yield each filter for sets in roles and playbooks whose result is neither sorted nor counted."""
    for path in sorted(path for kind in ("yml", "j2") for top in TEMPLATED for path in Path(top).rglob(f"*.{kind}")):
        text = path.read_text(encoding="utf-8")
        for found in _SET_FILTER.finditer(text):
            end, open_ones = found.end(), 1
            while open_ones:
                open_ones += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            if not _AFTER_SETS.match(text, end):
                yield (
                    f"{path}:{text.count(chr(10), 0, found.start()) + 1}: what {found[1]} gives has another order in"
                    " each run. Sort it, or take select and reject"
                )


def check_layout() -> Iterator[str]:
    """Yield roles without README, argument spec or scenario, and playbooks without one or that cannot be called."""
    for role in sorted(path for path in Path("roles").glob("*") if path.is_dir()):
        for name in ("README.md", "meta/argument_specs.yml"):
            if not (role / name).exists():
                yield f"{role}: {name} is not there"
        yield from _check_scenario(role.name, "role")
    for playbook in sorted(Path("playbooks").glob("*.yml")):
        if not playbook.stem.isidentifier():
            yield f"{playbook}: the name is no identifier, so `brine.virt.{playbook.stem}` cannot be run"
        yield from _check_scenario(playbook.stem, "playbook")
        converge = MOLECULE / playbook.stem / "converge.yml"
        called = re.compile(rf"\bbrine\.virt\.{re.escape(playbook.stem)}\b")
        if converge.exists() and not called.search(converge.read_text(encoding="utf-8")):
            yield f"{converge}: does not run brine.virt.{playbook.stem}"


def _check_scenario(of: str, kind: str) -> Iterator[str]:
    """Yield the files that the scenario of molecule of a role or a playbook lacks."""
    for name in ("molecule.yml", "converge.yml", "verify.yml"):
        if not (MOLECULE / of / name).exists():
            yield f"{MOLECULE / of}: {name} is not there, and so no scenario of the {kind}"


def main() -> int:
    """Print every broken rule; return 1 when there is one."""
    broken = [
        *check_floors(),
        *check_relative(),
        *check_folders(),
        *check_tested(),
        *check_tests_of_hypervisors(),
        *check_closures(),
        *check_homes(),
        *check_parsers(),
        *check_disk_openers(),
        *check_action_group(),
        *check_filter_documentation(),
        *check_assignments(),
        *check_orders(),
        *check_layout(),
        *broken_in_pages(),
    ]
    print("\n".join(broken) or "no rule is broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
