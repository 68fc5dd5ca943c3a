"""``python -m multiform``: the command line."""

import sys

from multiform.cli.main import main

sys.exit(main())
