"""python -m sfumato_kernel FILE: exit 0 if every claim in the file is proved, 1 if one is not, 2 if it is no such file,
3 if it claims something that this verifier does not prove."""

from __future__ import annotations

import sys
from pathlib import Path

from sfumato_kernel.reading import Beyond, Malformed, Refused
from sfumato_kernel.verdict import verify


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m sfumato_kernel FILE", file=sys.stderr)
        return 2
    try:
        verdict = verify(Path(arguments[0]).read_bytes())
    except OSError as error:
        print(f"{arguments[0]} could not be read: {error.strerror}", file=sys.stderr)
        return 2
    except Refused as error:
        print(f"refused: {error}", file=sys.stderr)
        return 2 if isinstance(error, Malformed) else 3 if isinstance(error, Beyond) else 1
    for sentence in verdict.proved:
        print(f"proved: {sentence}")
    return 0


def run() -> None:
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
