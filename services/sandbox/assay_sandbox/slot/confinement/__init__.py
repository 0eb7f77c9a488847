"""What keeps a program from the host: kernel calls, filters, control groups. Standard library."""
