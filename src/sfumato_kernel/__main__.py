"""python -m sfumato_kernel FILE: exit 0 if every claim in the file is proved, 1 if one is not, 2 if it is no such file,
3 if it claims something that this verifier does not prove."""

import sys
from pathlib import Path

from sfumato_kernel import Beyond, Malformed, Refused, verify


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m sfumato_kernel FILE", file=sys.stderr)
        return 2
    try:
        print(*(f"proved: {sentence}" for sentence in verify(Path(arguments[0]).read_bytes()).proved), sep="\n")
    except (OSError, Refused) as error:
        print(f"refused: {error}", file=sys.stderr)
        return 3 if isinstance(error, Beyond) else 2 if isinstance(error, Malformed | OSError) else 1
    return 0


def run() -> None:
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
