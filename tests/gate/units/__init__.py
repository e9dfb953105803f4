# SPDX-License-Identifier: GPL-3.0-or-later
"""How the gate runs the unit tests, and what they answered."""
