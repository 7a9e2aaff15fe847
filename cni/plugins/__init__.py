"""Plugins that need no file installed: bridge, host-local, loopback, portmap, bandwidth, over netlink and nftables.

Each has exactly the options that README.md lists and refuses any other by name.  `registry.EmbeddedInvoker` runs them
in this process; `python -m cni.plugins.bridge` and so on runs them as executables.  Not here: configurations of
networks and chains of plugins (`cni.api`), and anything about pods.
"""
