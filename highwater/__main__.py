"""`python -m highwater`: the same as the command `highwater`."""

from highwater.cli.main import main

if __name__ == "__main__":
    main()
