package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// kept is how many failures a report tells in words.
const kept = 20

// deadline is how long a call may take.
const deadline = 30 * time.Second

// report is what `load` prints. A failure is whatever is not an answer with a status below 400; nothing is tried again.
type report struct {
	Requests  int            `json:"requests"`
	Failed    int            `json:"failed"`
	Failures  []failure      `json:"failures"`
	ServedBy  map[string]int `json:"served_by"`
	PerSecond float64        `json:"per_second"`
	P50       float64        `json:"p50_us"`
	P99       float64        `json:"p99_us"`
	Slowest   float64        `json:"slowest_us"`
}

type failure struct {
	After  string `json:"after"`
	Reason string `json:"reason"`
}

// caller makes one call, which has this id unless it is empty, and names who answered.
type caller func(ctx context.Context, id string) (string, error)

func load(arguments []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	connections := flags.Int("connections", 1, "connections, each with one request at a time")
	rate := flags.Float64("rate", 0, "requests a second in all; as many as the connections carry by default")
	duration := flags.Duration("for", 10*time.Second, "how long, unless SIGTERM ends it before")
	requests := flags.Int("requests", 0, "so many in all, however long it takes")
	fresh := flags.Bool("fresh", false, "a new connection for each request, of HTTP or with -tcp")
	method := flags.String("method", http.MethodGet, "of HTTP")
	rpc := flags.Bool("grpc", false, "call the health service at HOST:PORT")
	service := flags.String("service", "", "of which the health is asked for with -grpc")
	lines := flags.Bool("tcp", false, "say lines to HOST:PORT")
	ids := flags.String("ids", "", "what the ids of the requests begin with, of HTTP and gRPC; a number follows")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("expected one target, got %q", flags.Args())
	}
	callers := make([]caller, *connections)
	for n := range callers {
		var err error
		switch {
		case *rpc:
			callers[n], err = callingGRPC(flags.Arg(0), *service)
		case *lines:
			callers[n] = sayingLines(flags.Arg(0), *fresh)
		default:
			callers[n] = callingHTTP(*method, flags.Arg(0), *fresh)
		}
		if err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	measured := drive(ctx, callers, *rate, *duration, *requests, *ids)
	return json.NewEncoder(os.Stdout).Encode(measured)
}

func callingHTTP(method, url string, fresh bool) caller {
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DisableKeepAlives: fresh}}
	return func(ctx context.Context, id string) (string, error) {
		request, err := http.NewRequestWithContext(ctx, method, url, nil)
		if err != nil {
			return "", err
		}
		if id != "" {
			request.Header.Set(requestID, id)
		}
		answer, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return "", err
		}
		if answer.StatusCode >= 400 {
			return "", fmt.Errorf("status %d", answer.StatusCode)
		}
		return answer.Header.Get(servedBy), nil
	}
}

func callingGRPC(target, service string) (caller, error) {
	connection, err := grpc.NewClient("passthrough:///"+target,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		return nil, err
	}
	client := grpc_health_v1.NewHealthClient(connection)
	return func(ctx context.Context, id string) (string, error) {
		if id != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, requestID, id)
		}
		var headers metadata.MD
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service}, grpc.Header(&headers))
		return strings.Join(headers.Get(servedBy), ","), err
	}, nil
}

// sayingLines says a line for each request and reads the answer, whose first word is who gave it. What fails ends the
// connection.
func sayingLines(address string, fresh bool) caller {
	var connection net.Conn
	var answers *bufio.Reader
	talk := func(ctx context.Context) (string, error) {
		if connection == nil {
			opened, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil {
				return "", err
			}
			connection, answers = opened, bufio.NewReader(opened)
		}
		if err := connection.SetDeadline(time.Now().Add(deadline)); err != nil {
			return "", err
		}
		if _, err := fmt.Fprintln(connection, "hello"); err != nil {
			return "", err
		}
		line, err := answers.ReadString('\n')
		who, _, _ := strings.Cut(line, " ")
		return who, err
	}
	return func(ctx context.Context, _ string) (string, error) {
		who, err := talk(ctx)
		if connection != nil && (err != nil || fresh) {
			connection.Close()
			connection = nil
		}
		return who, err
	}
}

// results gathers what all connections saw.
type results struct {
	report
	mutex   sync.Mutex
	started time.Time
	took    []time.Duration
}

// drive makes as many requests as there are, or where that is 0 goes on for the duration; the end of the context ends both.
// Each call has an id of this prefix and a number, unless the prefix is empty.
func drive(ctx context.Context, callers []caller, rate float64, duration time.Duration, requests int, ids string) report {
	gathered := &results{started: time.Now(), report: report{ServedBy: map[string]int{}}}
	end := gathered.started.Add(duration)
	var turns <-chan time.Time
	if rate > 0 {
		ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
		defer ticker.Stop()
		turns = ticker.C
	}
	var begun atomic.Int64
	goesOn := func(n int64) bool {
		if requests > 0 {
			return n <= int64(requests)
		}
		return time.Now().Before(end)
	}
	var waiting sync.WaitGroup
	for _, call := range callers {
		waiting.Go(func() {
			for n := begun.Add(1); ctx.Err() == nil && goesOn(n); n = begun.Add(1) {
				if turns != nil {
					<-turns
				}
				gathered.add(call, identified(ids, n))
			}
		})
	}
	waiting.Wait()
	return gathered.finish()
}

func identified(prefix string, n int64) string {
	if prefix == "" {
		return ""
	}
	return fmt.Sprint(prefix, n)
}

func (r *results) add(call caller, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	before := time.Now()
	who, err := call(ctx, id)
	took := time.Since(before)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.Requests++
	if err != nil {
		r.Failed++
		if len(r.Failures) < kept {
			r.Failures = append(r.Failures, failure{time.Since(r.started).String(), err.Error()})
		}
		return
	}
	r.took = append(r.took, took)
	r.ServedBy[who]++
}

func (r *results) finish() report {
	slices.Sort(r.took)
	at := func(share float64) float64 {
		if len(r.took) == 0 {
			return 0
		}
		return float64(r.took[int(share*float64(len(r.took)-1))].Nanoseconds()) / 1000
	}
	r.P50, r.P99, r.Slowest = at(0.5), at(0.99), at(1)
	r.PerSecond = float64(r.Requests) / time.Since(r.started).Seconds()
	return r.report
}
