# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make test` and `make test-full` run in the lab."""
