"""Compare a plan with the table as it is now: revise it, read its slices, leave groups out.

Imported by `services.base` and by the kinds of services. Read first: leave_out.py.
"""
