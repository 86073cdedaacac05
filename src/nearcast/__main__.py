"""`python -m nearcast` is the command `nearcast`."""

from nearcast.cli import main

if __name__ == "__main__":
    main()
