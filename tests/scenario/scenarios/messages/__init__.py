# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user reads, and what must not be read anywhere."""
