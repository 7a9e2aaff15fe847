"""Pod networks: pinned network namespaces and what is plugged into them.

`api` is the interface on one screen; one module per backend; `netns` pins namespaces.  The room knows pods as
values handed in.  It keeps no state of its own: what a detach will need is in the record that `PodNetwork.plan` and
`PodNetwork.attach` return, and the caller checkpoints it.
"""
