package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// kept is how many failures a report tells in words.
const kept = 20

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

// caller makes one call and names who answered.
type caller func(ctx context.Context) (string, error)

func load(arguments []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	connections := flags.Int("connections", 1, "connections, each with one request at a time")
	rate := flags.Float64("rate", 0, "requests a second in all; as many as the connections carry by default")
	duration := flags.Duration("for", 10*time.Second, "how long, unless SIGTERM ends it before")
	fresh := flags.Bool("fresh", false, "a new connection for each request")
	method := flags.String("method", http.MethodGet, "of HTTP")
	rpc := flags.Bool("grpc", false, "call the health service at HOST:PORT")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("expected one target, got %q", flags.Args())
	}
	callers := make([]caller, *connections)
	for n := range callers {
		var err error
		if *rpc {
			callers[n], err = callingGRPC(flags.Arg(0))
		} else {
			callers[n] = callingHTTP(*method, flags.Arg(0), *fresh)
		}
		if err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	measured := drive(ctx, callers, *rate, *duration)
	return json.NewEncoder(os.Stdout).Encode(measured)
}

func callingHTTP(method, url string, fresh bool) caller {
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DisableKeepAlives: fresh}}
	return func(ctx context.Context) (string, error) {
		request, err := http.NewRequestWithContext(ctx, method, url, nil)
		if err != nil {
			return "", err
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
		return answer.Header.Get("X-Served-By"), nil
	}
}

func callingGRPC(target string) (caller, error) {
	connection, err := grpc.NewClient("passthrough:///"+target,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		return nil, err
	}
	client := grpc_health_v1.NewHealthClient(connection)
	return func(ctx context.Context) (string, error) {
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return "", err
	}, nil
}

// results gathers what all connections saw.
type results struct {
	report
	mutex   sync.Mutex
	started time.Time
	took    []time.Duration
}

// drive calls for that long, or until the context ends.
func drive(ctx context.Context, callers []caller, rate float64, duration time.Duration) report {
	gathered := &results{started: time.Now(), report: report{ServedBy: map[string]int{}}}
	end := gathered.started.Add(duration)
	var turns <-chan time.Time
	if rate > 0 {
		ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
		defer ticker.Stop()
		turns = ticker.C
	}
	var waiting sync.WaitGroup
	for _, call := range callers {
		waiting.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				if turns != nil {
					<-turns
				}
				gathered.add(call)
			}
		})
	}
	waiting.Wait()
	return gathered.finish()
}

func (r *results) add(call caller) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	before := time.Now()
	who, err := call(ctx)
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
