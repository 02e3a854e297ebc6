"""Compare a plan with what happened since: revise its draft, read its slices, leave groups out.

Imported by `services.base` and by the kinds of services. Read first: leave_out.py.
"""
