# SPDX-License-Identifier: GPL-3.0-or-later
"""What the unit tests answered, read from their JUnit reports, and which of them may be skipped."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from ..results import Counts

# Why a test may be skipped: what it lacks is nothing that tests/gate/setup could install. Any other skip is a failure:
# have tests/gate/setup install what is missing.
BY_DESIGN = {
    "no extended attributes here": "the file system that holds the temporary files has none",
    "Debian's network managers cannot be unpacked here": "there is no apt-get; on Debian, tests/gate/setup does it",
    "cannot mount a file system here": "only root may, and not in every container",
    "no network namespaces here": "they need root or the right to user namespaces, which not every container gives",
    "this kernel's bridges know no VLANs": "it was built without CONFIG_BRIDGE_VLAN_FILTERING",
}


def read_reports(reports: Iterable[Path]) -> tuple[Counts, list[str]]:
    """Add up the unit tests of some reports. Returns the sums, and a line for each test that must not be skipped.

    Such a test counts as failed.
    """
    counts, complaints = Counts(), []
    for report in reports:
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            total, skipped = (int(suite.get(name, "0")) for name in ("tests", "skipped"))
            failed = sum(int(suite.get(name, "0")) for name in ("failures", "errors"))
            counts += Counts(total - failed - skipped, failed, skipped)
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            reason = case.find("skipped")
            words = "" if reason is None else reason.get("message", "")
            if reason is not None and words not in BY_DESIGN:
                complaints.append(f"{case.get('classname')} {case.get('name')} was skipped: {words}")
    return counts + Counts(failed=len(complaints), skipped=-len(complaints)), complaints
