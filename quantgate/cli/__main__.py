"""`python -m quantgate.cli`."""

from __future__ import annotations

import sys

from quantgate.cli import main

sys.exit(main())
