# SPDX-License-Identifier: GPL-3.0-or-later
"""How scenarios drive hosts and guests: one task or role at a time, and a guest's serial console."""
