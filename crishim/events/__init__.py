"""What happened to pods and containers, told to those who listen (CRI `GetContainerEvents`).

Here: which events a change of the index means, who is told of them, how far a slow listener may fall behind, and what
it then loses. Not here: what an event looks like on the wire (`crishim.rpc`), and how the index comes to know
(`runtime.watch`).
"""
