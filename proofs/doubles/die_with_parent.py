"""Run a command that cannot outlive the process that started it.

Executed by path, ``python -I -S die_with_parent.py PARENT_PID COMMAND...``, so it imports only what
it needs. The request to the kernel survives ``exec``. This is a program and not a ``preexec_fn``,
because Python code between fork and exec can deadlock in a process that has threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Become the command, with SIGKILL ordered for the moment of the parent's death."""
    parent, *command = arguments
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != int(parent):
        sys.exit("The process that wanted this command died before it could start; nothing was run.")
    os.execv(command[0], command)  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
