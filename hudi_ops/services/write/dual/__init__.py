"""Write rows into the child groups of a pending resize as well.

Rooms: `child_logs` is the task that reads what a write put into a parent group, and writes it for the children; `writer` decides
which child logs a write needs in the state in which it completes.
"""
