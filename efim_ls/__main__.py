"""`python -m efim_ls` is `efim-ls`."""

import sys

from efim_ls.cli import main

if __name__ == "__main__":
    sys.exit(main())
