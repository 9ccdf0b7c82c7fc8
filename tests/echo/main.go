// Command echo is the application and the client of the node's tests.
//
//	echo serve [-name NAME] [-http :8080] [-https :8443] [-tcp :9000] [-grpc :9100] [-drain 0s] [-journal FOLDER]
//	echo load [-connections 1] [-rate 0] [-for 10s | -requests N] [-fresh] [-method GET] [-ids PREFIX] URL
//	echo load -grpc [-service NAME] [-connections 1] [-rate 0] [-for 10s | -requests N] [-ids PREFIX] HOST:PORT
//	echo load -tcp [-connections 1] [-rate 0] [-for 10s | -requests N] [-fresh] HOST:PORT
//
// `serve` answers HTTP/1.1 and HTTP/2 without TLS on one port; see application.go for its paths. `load` prints one line
// of JSON when its time is over or SIGTERM ends it, see client.go.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("expected serve or load")
	}
	switch arguments[0] {
	case "serve":
		return serve(arguments[1:])
	case "load":
		return load(arguments[1:])
	default:
		return fmt.Errorf("%q is neither serve nor load", arguments[0])
	}
}
