"""Whether a program passes its test cases."""
