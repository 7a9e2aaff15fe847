"""What the engine cannot keep for us, kept across restarts of the server: one record for each pod sandbox.

For: pinned namespace, network attachment and its result, resources as asked, log positions, requests word for word.
Not for: anything the engine holds anyway (whether a container runs, its exit code), and not for deciding; records are
plain values and stores only keep them. `record` has the values, `api` the interface on one screen, `codec` the bytes,
`registry` finds a store by its name; `sqlite`, `file` and `memory` are the stores that come with the server. A store
of one's own is a class behind the entry point group `crishim.checkpoint_stores`, checked by
`crishim.testing.checkpoint_contract`.
"""
