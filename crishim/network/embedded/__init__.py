"""The backend `embedded`: a bridge of crishim's own, with plugins that run in this process and need no file installed.

`backend` is the `PodNetwork`; `conf` the conflist; `rules` keeps the packet filter's rules of the attached pods in
place; `forward` sees that a foreign FORWARD chain lets them pass; `taken` finds ranges that are in use.
"""
