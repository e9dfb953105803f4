# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a recorded terminal stands in the picture."""

from __future__ import annotations

from ansible_collections.brine.virt.tests.pictures.excerpt import excerpt, lines_of, plain

RECORDED = (
    b"== set up\r\n\r\n$ one\r\n\r\nPLAY [x] ***\r\n\x1b[0;32mok: [hv1]\x1b[0m\r\n\r\nRECAP\r\n\r\n$ two\r\nall\r\n"
)


def test_each_command_keeps_the_end_of_its_output() -> None:
    shown = [plain(line) for line in excerpt(RECORDED, 3)]
    assert shown == ["$ one", "... lines left out: 1", "ok: [hv1]", "", "RECAP", "", "$ two", "all"]


def test_nothing_is_left_out_where_all_fits() -> None:
    shown = excerpt(RECORDED, 4)
    assert shown == ["$ one", "PLAY [x] ***", "\x1b[0;32mok: [hv1]\x1b[0m", "", "RECAP", "", "$ two", "all"]


def test_a_line_that_was_written_over_is_what_was_written_last() -> None:
    assert lines_of(b"10%\r100%\r\nend") == ["100%", "end"]
