"""``python3 -m cell_agent`` does what ``agent.pyz`` does."""

import sys

from .cli import main

sys.exit(main())
