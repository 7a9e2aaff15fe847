//go:build tools

// Package conformance pins the programs that judge crishim: their sources come by this module's go.mod and go.sum.
package conformance

import (
	_ "sigs.k8s.io/cri-tools/cmd/crictl"
	_ "sigs.k8s.io/cri-tools/pkg/validate"
)
