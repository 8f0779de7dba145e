"""python -m sfumato.cli is the command sfumato."""

from sfumato.cli import main

main()
