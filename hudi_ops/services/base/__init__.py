"""Share what every table service does: publish, take over, execute and release a plan.

Imported by the other packages of `services`; imports none of them. Read first: service.py, then plan.py and execute.py.
"""
