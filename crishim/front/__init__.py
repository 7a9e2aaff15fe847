"""The OCI front: a runtime that the engine calls in place of the real one, and that asks crishim before it becomes it.

`program` is what the engine starts, `wire` what it and the server say to each other, `desk` the server's side of that,
`twins` the names and files by which both know each other, `install` makes an engine know it. What a container's
configuration becomes is decided in `crishim.runtime`; nothing here knows a pod. docs/decisions/oci-front.md says why
there is a front.
"""
