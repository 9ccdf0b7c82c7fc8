package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// serve listens until SIGTERM, goes on for the time of -drain, and ends once all requests are answered.
func serve(arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	name := flags.String("name", hostname(), "who answers")
	plain := flags.String("http", "", "address for HTTP/1.1 and HTTP/2 without TLS")
	secure := flags.String("https", "", "address for HTTPS, with a certificate that nobody knows")
	lines := flags.String("tcp", "", "address for lines: each comes back after the name")
	calls := flags.String("grpc", "", "address for gRPC: the health service, which knows the service slow too and takes 300 ms for it")
	drain := flags.Duration("drain", 0, "how long to go on after SIGTERM")
	folder := flags.String("journal", "", "folder for a file of the host's name with the ids of the requests")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	journal, err := openJournal(*folder, hostname())
	if err != nil {
		return err
	}
	app := newApplication(*name, journal)
	server := &http.Server{Handler: app.handler(), Protocols: protocols()}
	failed := make(chan error, 4)
	start := func(address string, serve func(net.Listener) error) error {
		if address == "" {
			return nil
		}
		listener, err := net.Listen("tcp", address)
		if err == nil {
			go func() { failed <- serve(listener) }()
		}
		return err
	}
	rpc := newRPC(app.name, journal)
	err = errors.Join(
		start(*plain, server.Serve),
		start(*secure, func(listener net.Listener) error { return serveTLS(server, listener) }),
		start(*lines, func(listener net.Listener) error { return serveLines(app.name, listener) }),
		start(*calls, rpc.Serve),
	)
	if err != nil {
		return err
	}
	return untilTerminated(server, rpc, failed, *drain)
}

func newRPC(name string, journal *journal) *grpc.Server {
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(naming(name, journal), slowing))
	states := health.NewServer()
	states.SetServingStatus(slow, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, states)
	return server
}

// slow is a service whose health takes a while to find out.
const slow = "slow"

func slowing(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if asked, ok := request.(*grpc_health_v1.HealthCheckRequest); ok && asked.GetService() == slow {
		time.Sleep(300 * time.Millisecond)
	}
	return handle(ctx, request)
}

// naming adds the name to every answer of gRPC, and the request's id to the journal.
func naming(name string, journal *journal) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		for _, id := range metadata.ValueFromIncomingContext(ctx, requestID) {
			journal.add(id)
		}
		if err := grpc.SetHeader(ctx, metadata.Pairs(servedBy, name)); err != nil {
			return nil, err
		}
		return handle(ctx, request)
	}
}

func untilTerminated(server *http.Server, rpc *grpc.Server, failed chan error, drain time.Duration) error {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT)
	select {
	case err := <-failed:
		return err
	case <-terminated:
	}
	time.Sleep(drain)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	// Calls of both kinds are answered before the process ends.
	stopped := make(chan struct{})
	go func() {
		rpc.GracefulStop()
		close(stopped)
	}()
	err := server.Shutdown(ctx)
	select {
	case <-stopped:
	case <-ctx.Done():
	}
	return err
}

func protocols() *http.Protocols {
	all := new(http.Protocols)
	all.SetHTTP1(true)
	all.SetUnencryptedHTTP2(true)
	all.SetHTTP2(true)
	return all
}

func serveTLS(server *http.Server, listener net.Listener) error {
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	return server.Serve(tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}}))
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), DNSNames: []string{"echo"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func serveLines(name string, listener net.Listener) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			for lines := bufio.NewScanner(connection); lines.Scan(); {
				if _, err := fmt.Fprintf(connection, "%s %s\n", name, lines.Text()); err != nil {
					return
				}
			}
		}()
	}
}
