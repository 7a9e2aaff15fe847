"""Packet filter rules of the embedded plugins, told to the kernel's nftables in-process: no program is run.

All of it is one table, `inet crishim`, of the network namespace that the caller's thread is in.  `netlink` speaks the
socket's language, `encode` and `expressions` nftables', `skeleton` is the table, `ruleset` changes it; `masquerade` is
for plugins that let containers out.  Everything blocks for well under a millisecond: call it in a thread.
"""
