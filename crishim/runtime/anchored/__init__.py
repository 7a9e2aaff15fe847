"""Pods without a process of their own: their namespaces are pinned by us, and their containers enter them by way of the
runtime front (`crishim.front`)."""
