"""Compare a plan with the table as it is now: revise it, leave groups out, check hash rings.

Imported by `services.base` and by the kinds of services. Read first: leave_out.py.
"""
