"""A client of exec, attach and port-forward made of client-go, as kubectl is; a Go program of its own (main.go)."""
