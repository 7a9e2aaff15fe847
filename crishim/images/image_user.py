"""Whom an image wants to run as, in CRI's words."""

from __future__ import annotations


def image_user(user: str) -> tuple[int | None, str]:
    """Split an image's `USER` into CRI's `Image.uid` and `Image.username`; exactly one of them says something.

    `uid[:gid]` gives the uid, `name[:group]` the name; the group is not part of CRI's `Image`. No user at all is root,
    uid 0 (OCI image spec, `config.User`): the kubelet's runAsNonRoot looks at these two and takes neither for unknown.
    """
    name = user.partition(":")[0].strip()
    if not name:
        return 0, ""
    # Only what the kernel could take: a longer number is a name that no passwd file will have.
    if name.isascii() and name.isdigit() and int(name) < 2**32:
        return int(name), ""
    return None, name
