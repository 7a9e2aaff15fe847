"""Images: the ImageService's verbs, and the sandbox image that is part of the package (`embedded`).

What an image is and how it is pulled is the engine's; who may ask for what, and when an image counts as used or
pinned, is decided here.
"""
