"""Tools of the project itself; none of it is installed with labctl."""
