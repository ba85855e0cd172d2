"""python -m energon_cpp …: the program energon."""

from ._program import main

main()
