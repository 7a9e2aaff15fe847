"""CNI's reference plugins: those of the system, and a newer release built from source, to compare ours with."""
