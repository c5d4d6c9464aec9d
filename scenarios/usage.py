"""Command lines that refuse bad input in one line.

Verbs let these errors pass: the front door prints them behind the verb's name and exits with their code.
"""

import argparse
from pathlib import Path
from typing import Any, ClassVar, NoReturn


class UsageError(ValueError):
    """A command line cannot be understood; the text is one line with the remedy."""

    exit_code: ClassVar[int] = 2


class OutError(RuntimeError):
    """Results cannot be written where they should be; the text is one line with the remedy."""

    exit_code: ClassVar[int] = 3

    def __init__(self, out: Path, error: OSError) -> None:
        super().__init__(f"{out}: {error.strerror}; remedy: name another directory with --out")


class Parser(argparse.ArgumentParser):
    """argparse, except that an error is raised as a UsageError instead of printed as a page, and nothing is guessed."""

    def __init__(self, **kw: Any) -> None:
        super().__init__(allow_abbrev=False, **kw)

    def error(self, message: str) -> NoReturn:
        """Raise the error."""
        raise UsageError(f"{message.removeprefix('argument ')}; remedy: see {self.prog} --help")
