"""The best that any policy could have done, all future known: exact, fast, certified (Das 4.1 and 6.1; design, section 4)."""
