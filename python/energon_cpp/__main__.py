"""Runs the program energon: python -m energon_cpp …"""

from ._program import main

main()
