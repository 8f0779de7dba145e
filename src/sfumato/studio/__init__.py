"""Studio: the whole road in a browser, on one's own machine.

    server    one process: requests, uploads, what each tab sees            server, visits, door
    hands     processes that hold a table, count, design and release        hands, desk
    page      plain modules that show what they are sent                    assets

The server never opens a table, and the page never computes a figure: Python does, in a process that can be ended.
"""
