// cri_client makes CRI calls as a kubelet does, with grpc-go and the messages of k8s.io/cri-api over one connection, and
// tells how long each took.
//
//	cri_client SOCKET
//
// For each line of its input, {"method": "/runtime.v1.RuntimeService/Version", "request": base64, "times": 20}, it makes
// that many calls, one after the other, and prints {"nanoseconds": [...], "response": base64} or {"error": "..."}.  What
// is timed is the whole call as its caller sees it: encoding, the wire, decoding into the message's own type.  A method
// that CRI does not have is called with google.protobuf.Empty both ways.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"
	_ "k8s.io/cri-api/pkg/apis/runtime/v1" // registers the messages
)

const (
	messageLimit = 16 << 20         // bytes; a kubelet's own (maxMsgSize of k8s.io/cri-client)
	patience     = 60 * time.Second // for one call
)

type order struct {
	Method  string `json:"method"`
	Request []byte `json:"request"`
	Times   int    `json:"times"`
}

type result struct {
	Nanoseconds []int64 `json:"nanoseconds,omitempty"`
	Response    []byte  `json:"response,omitempty"`
	Error       string  `json:"error,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cri_client SOCKET")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "cri_client:", err)
		os.Exit(1)
	}
}

func run(socket string) error {
	connection, err := grpc.NewClient(
		"unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageLimit), grpc.MaxCallSendMsgSize(messageLimit)),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 2*messageLimit)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var wanted order
		if err := json.Unmarshal(lines.Bytes(), &wanted); err != nil {
			return err
		}
		found, err := carryOut(connection, wanted)
		if err != nil {
			found = result{Error: err.Error()}
		}
		if err := answers.Encode(found); err != nil {
			return err
		}
	}
	return lines.Err()
}

func carryOut(connection *grpc.ClientConn, wanted order) (result, error) {
	request, response, err := messagesOf(wanted.Method)
	if err != nil {
		return result{}, err
	}
	if err := proto.Unmarshal(wanted.Request, request); err != nil {
		return result{}, err
	}
	taken := make([]int64, 0, wanted.Times)
	for range wanted.Times {
		proto.Reset(response)
		ctx, done := context.WithTimeout(context.Background(), patience)
		began := time.Now()
		err := connection.Invoke(ctx, wanted.Method, request, response)
		taken = append(taken, time.Since(began).Nanoseconds())
		done()
		if err != nil {
			return result{}, err
		}
	}
	wire, err := proto.Marshal(response)
	return result{Nanoseconds: taken, Response: wire}, err
}

// messagesOf returns an empty request and an empty response of a method ("/service/name").
func messagesOf(method string) (proto.Message, proto.Message, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err == protoregistry.NotFound {
		return &emptypb.Empty{}, &emptypb.Empty{}, nil
	} else if err != nil {
		return nil, nil, err
	}
	known, isMethod := descriptor.(protoreflect.MethodDescriptor)
	if !isMethod {
		return nil, nil, fmt.Errorf("%s is not a method", method)
	}
	made := [2]proto.Message{}
	for i, message := range []protoreflect.MessageDescriptor{known.Input(), known.Output()} {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(message.FullName())
		if err != nil {
			return nil, nil, err
		}
		made[i] = kind.New().Interface()
	}
	return made[0], made[1], nil
}
