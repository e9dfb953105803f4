# SPDX-License-Identifier: GPL-3.0-or-later
"""Many hypervisors: emptied, balanced, of different releases, and out of reach."""
