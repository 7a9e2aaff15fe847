"""containerd itself, the measure of the field, on the same machine in the same run."""
