"""The command line: ``ifonly``, or ``python -m ifonly``. One file per command; errors are one line, and say so by exit code."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

__all__ = ["main"]

DONE, FAILED, WRONG, INTERRUPTED, CLOSED = 0, 1, 2, 130, 141  # the last two as shells count signals: 128 + SIGINT, + SIGPIPE
EXTRAS = ("typer", "rich")


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit.

    The exit code is 0 where all went well, 1 for a failure (or a decision that cannot be reached), 2 for wrong input, 130 after
    Ctrl-C, 141 where whoever reads the output stopped reading.
    """
    try:
        code = _guarded(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads any more: what is still in the buffer goes nowhere, without a word
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = CLOSED
    raise SystemExit(code)


def _guarded(arguments: list[str]) -> int:
    """The exit code of a command; what goes wrong is one line on stderr."""
    try:
        return _run([a for a in arguments if a != "--debug"])
    except BrokenPipeError:
        raise
    except KeyboardInterrupt as stop:
        code, message = INTERRUPTED, str(stop) or "stopped"
    except Exception as error:
        if "--debug" in arguments:
            raise
        code, message = _complaint(error)
    from ifonly.show.table import visible

    sys.stderr.write(f"ifonly: {visible(message)}\n")
    return code


def _run(arguments: list[str]) -> int:
    if any(find_spec(name) is None for name in EXTRAS):
        from ifonly.model.extras import missing

        raise missing("the command line needs typer and rich", "cli")
    import typer

    from ifonly.cli.app import app

    command = typer.main.get_command(app)
    if "_IFONLY_COMPLETE" in os.environ:  # a shell asks what could come next
        command.main(arguments, prog_name="ifonly")
    try:
        with command.make_context("ifonly", arguments) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return DONE


def _complaint(error: Exception) -> tuple[int, str]:
    """The exit code of an error, and what to say about it."""
    from ifonly.model.errors import IfonlyError

    usage = getattr(error, "format_message", None)  # of the parser's, whose classes typer does not export
    if usage is not None:
        return WRONG, usage() or "see ifonly --help"
    if isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError)):
        return WRONG, f"{error.filename}: {error.strerror}"
    message = next(iter(str(error).strip().splitlines()), type(error).__name__)
    hint = "" if isinstance(error, (IfonlyError, ImportError, OSError)) else f" ({type(error).__name__}; --debug shows where)"
    return WRONG if isinstance(error, IfonlyError) else FAILED, f"{message}{hint}"
