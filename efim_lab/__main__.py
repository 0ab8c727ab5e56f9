"""`python -m efim_lab VERB`: the laboratory's command line."""

import sys

from efim_lab.commands import main

if __name__ == "__main__":
    sys.exit(main())
