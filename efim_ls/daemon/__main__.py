"""`python -m efim_ls.daemon FD` becomes the daemon that listens on an inherited socket."""

import os
import sys

if __name__ == "__main__":
    # No child of the relay that starts it: editors end a process with all its children.
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    from efim_ls.daemon.process import main

    main(int(sys.argv[1]))
