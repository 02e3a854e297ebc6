"""Cancel pending plans for good, and show them (RFC-79).

`request.py` decides the cancel, `abort.py` removes what the plan left; `plans.py` shows all plans. Read first: request.py.
"""
