"""`python -m efim_lab.gate VERB`: the verbs of the gate alone."""

import sys

from efim_lab.gate.commands.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
