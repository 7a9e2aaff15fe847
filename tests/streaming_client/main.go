// A client of the streaming protocols that is made of Kubernetes' own parts: client-go's remotecommand and portforward,
// as kubectl uses them.
//
//	streaming-client [flags] process URL   exec or attach: its streams are ours, and so is its exit code
//	streaming-client [flags] forward URL LOCAL:REMOTE...   until stdin ends; prints each local port
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

var (
	transport = flag.String("transport", "auto", "spdy, websocket, or auto: WebSocket, then SPDY")
	stdin     = flag.Bool("stdin", false, "give our stdin")
	stderr    = flag.Bool("stderr", true, "take stderr")
	tty       = flag.Bool("tty", false, "the process has a terminal")
	width     = flag.Int("width", 0, "of the terminal, in characters; 0: say nothing of its size")
	height    = flag.Int("height", 0, "likewise")
	ca        = flag.String("ca", "", "file with the CA of the server")
	cert      = flag.String("cert", "", "file with our certificate")
	key       = flag.String("key", "", "file with its key")
)

// oneSize is a terminal whose size never changes.
type oneSize struct{ size *remotecommand.TerminalSize }

func (s *oneSize) Next() *remotecommand.TerminalSize {
	size := s.size
	s.size = nil
	return size
}

func main() {
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	target, err := url.Parse(flag.Arg(1))
	if err == nil {
		config := &rest.Config{Host: target.Host}
		config.CAFile, config.CertFile, config.KeyFile = *ca, *cert, *key
		switch flag.Arg(0) {
		case "process":
			err = process(config, target)
		case "forward":
			err = forward(config, target, flag.Args()[2:])
		default:
			err = fmt.Errorf("there is no %q", flag.Arg(0))
		}
	}
	var exit exec.CodeExitError
	if errors.As(err, &exit) {
		os.Exit(exit.Code)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "streaming-client:", err)
		os.Exit(125)
	}
}

func upgraded(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

func executor(config *rest.Config, target *url.URL) (remotecommand.Executor, error) {
	overSPDY, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, target)
	if err != nil || *transport == "spdy" {
		return overSPDY, err
	}
	overWebSocket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, target.String())
	if err != nil || *transport == "websocket" {
		return overWebSocket, err
	}
	return remotecommand.NewFallbackExecutor(overWebSocket, overSPDY, upgraded)
}

func process(config *rest.Config, target *url.URL) error {
	client, err := executor(config, target)
	if err != nil {
		return err
	}
	options := remotecommand.StreamOptions{Stdout: os.Stdout, Tty: *tty}
	if *stdin {
		options.Stdin = os.Stdin
	}
	if *stderr && !*tty {
		options.Stderr = os.Stderr
	}
	if *width > 0 {
		size := &remotecommand.TerminalSize{Width: uint16(*width), Height: uint16(*height)}
		options.TerminalSizeQueue = &oneSize{size}
	}
	return client.StreamWithContext(context.Background(), options)
}

func dialer(config *rest.Config, target *url.URL) (httpstream.Dialer, error) {
	tripper, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: tripper}, http.MethodPost, target)
	if *transport == "spdy" {
		return overSPDY, nil
	}
	overWebSocket, err := portforward.NewSPDYOverWebsocketDialer(target, config)
	if err != nil || *transport == "websocket" {
		return overWebSocket, err
	}
	return portforward.NewFallbackDialer(overWebSocket, overSPDY, upgraded), nil
}

func forward(config *rest.Config, target *url.URL, ports []string) error {
	client, err := dialer(config, target)
	if err != nil {
		return err
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.New(client, ports, stop, ready, io.Discard, os.Stderr)
	if err != nil {
		return err
	}
	go func() {
		<-ready
		forwarded, err := forwarder.GetPorts()
		if err != nil {
			fmt.Fprintln(os.Stderr, "streaming-client:", err)
		}
		for _, port := range forwarded {
			fmt.Println(port.Local)
		}
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	return forwarder.ForwardPorts()
}
