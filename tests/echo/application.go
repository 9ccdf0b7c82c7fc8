package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// servedBy names who answered, in HTTP and gRPC.
const servedBy = "X-Served-By"

// application answers HTTP. Every answer names who gave it in the header X-Served-By, and a request with the parameter
// `id` is counted.
//
//	/                       what the request looked like, as JSON
//	/status?code=503        that status
//	/slow?for=500ms         200 after a while
//	/flaky?id=a&times=2     503 so many times for an id, then 200
//	/count?of=a             how many requests had that id
//	/call?url=http://…      calls another application with the trace of the request; its status and body
//	/call?relay=1&url=…     the same, and the status is the answer's too
type application struct {
	name    string
	journal *journal
	mutex   sync.Mutex
	seen    map[string]int
}

// request is what an application saw.
type request struct {
	Name     string      `json:"name"`
	Method   string      `json:"method"`
	Path     string      `json:"path"`
	Host     string      `json:"host"`
	Protocol string      `json:"protocol"`
	Remote   string      `json:"remote"`
	Headers  http.Header `json:"headers"`
	Body     int64       `json:"body"`
}

func newApplication(name string, journal *journal) *application {
	return &application{name: name, journal: journal, seen: map[string]int{}}
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

func (a *application) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", a.describe)
	mux.HandleFunc("/status", a.status)
	mux.HandleFunc("/slow", a.slow)
	mux.HandleFunc("/flaky", a.flaky)
	mux.HandleFunc("/count", a.count)
	mux.HandleFunc("/call", a.call)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(servedBy, a.name)
		a.journal.add(r.Header.Get(requestID))
		mux.ServeHTTP(w, r)
	})
}

// note counts a request, and says how many had its id before.
func (a *application) note(r *http.Request) int {
	id := r.URL.Query().Get("id")
	if id == "" {
		return 0
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.seen[id]++
	return a.seen[id] - 1
}

func (a *application) describe(w http.ResponseWriter, r *http.Request) {
	a.note(r)
	length, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	answer(w, request{
		Name: a.name, Method: r.Method, Path: r.URL.RequestURI(), Host: r.Host, Protocol: r.Proto,
		Remote: r.RemoteAddr, Headers: r.Header, Body: length,
	})
}

func (a *application) status(w http.ResponseWriter, r *http.Request) {
	a.note(r)
	code, err := strconv.Atoi(r.URL.Query().Get("code"))
	if err != nil || code < 200 || code > 599 {
		http.Error(w, "code: expected a status from 200 to 599", http.StatusBadRequest)
		return
	}
	w.WriteHeader(code)
}

func (a *application) slow(w http.ResponseWriter, r *http.Request) {
	a.note(r)
	wait, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(wait)
	fmt.Fprintln(w, "done")
}

func (a *application) flaky(w http.ResponseWriter, r *http.Request) {
	times, err := strconv.Atoi(r.URL.Query().Get("times"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if a.note(r) < times {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (a *application) count(w http.ResponseWriter, r *http.Request) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	fmt.Fprintln(w, a.seen[r.URL.Query().Get("of")])
}

// call passes on what a tracing library would.
func (a *application) call(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	onward, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL.Query().Get("url"), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, header := range []string{"Traceparent", "Tracestate"} {
		if value := r.Header.Get(header); value != "" {
			onward.Header.Set(header, value)
		}
	}
	called, err := http.DefaultClient.Do(onward)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer called.Body.Close()
	body, err := io.ReadAll(called.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if r.URL.Query().Has("relay") {
		w.WriteHeader(called.StatusCode)
	}
	answer(w, map[string]any{"status": called.StatusCode, "served_by": called.Header.Get(servedBy), "body": string(body)})
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
