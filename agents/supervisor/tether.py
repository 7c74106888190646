"""Runs a command that must not outlive the process that started it.

    python tether.py PARENT COMMAND [ARGUMENT...]

The kernel kills the command when its parent ends, however that ends. Only the
standard library is used, so that this costs milliseconds; where the kernel is not
Linux the command runs untethered.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # It may have ended before the kernel was asked.
        if os.getppid() != parent:
            sys.exit("The supervisor has ended.")
    os.execvp(command[0], command)  # noqa: S606 - becoming the command is the point


if __name__ == "__main__":
    main()
