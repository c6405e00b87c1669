"""``python -m ifonly``: the command line."""

from ifonly.cli import main

if __name__ == "__main__":
    main()
