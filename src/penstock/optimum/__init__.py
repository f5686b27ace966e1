"""The optimum: the best that any policy could have done, all future known, and the schedule that does it (design 4)."""
