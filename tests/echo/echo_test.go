package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFlakyAnswersAfterSoManyFailures(t *testing.T) {
	server := httptest.NewServer(newApplication("a", nil).handler())
	defer server.Close()
	for n, expected := range []int{503, 503, 200, 200} {
		answer, err := http.Get(server.URL + "/flaky?id=x&times=2")
		if err != nil || answer.StatusCode != expected {
			t.Fatalf("call %d: %v, %v", n, answer, err)
		}
	}
}

func TestLoadCountsWhoAnswersAndWhatFails(t *testing.T) {
	server := httptest.NewServer(newApplication("a", nil).handler())
	defer server.Close()
	good := drive(t.Context(), []caller{callingHTTP(http.MethodGet, server.URL, false)}, 0, 100*time.Millisecond, 0, "")
	if good.Requests == 0 || good.Failed != 0 || good.ServedBy["a"] != good.Requests || good.P99 < good.P50 {
		t.Errorf("%+v", good)
	}
	bad := drive(t.Context(), []caller{callingHTTP(http.MethodGet, server.URL+"/status?code=500", false)}, 100, 100*time.Millisecond, 0, "")
	if bad.Requests == 0 || bad.Failed != bad.Requests || bad.Failures[0].Reason != "status 500" {
		t.Errorf("%+v", bad)
	}
}

func TestLoadSaysLinesAndStopsAfterSoMany(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go serveLines("a", listener)
	for _, fresh := range []bool{false, true} {
		address := listener.Addr().String()
		callers := []caller{sayingLines(address, fresh), sayingLines(address, fresh)}
		seen := drive(t.Context(), callers, 0, 0, 25, "")
		if seen.Requests != 25 || seen.Failed != 0 || seen.ServedBy["a"] != 25 {
			t.Errorf("fresh %v: %+v", fresh, seen)
		}
	}
}

func TestLoadReadsWhoAnsweredOverGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newRPC("a", nil)
	defer server.Stop()
	go server.Serve(listener)
	call, err := callingGRPC(listener.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	if seen := drive(t.Context(), []caller{call}, 0, 0, 3, ""); seen.Failed != 0 || seen.ServedBy["a"] != 3 {
		t.Errorf("%+v", seen)
	}
}

func TestJournalHasEachRequestByItsID(t *testing.T) {
	folder := t.TempDir()
	journal, err := openJournal(folder, "a")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rpc := newRPC("a", journal)
	defer rpc.Stop()
	go rpc.Serve(listener)
	server := httptest.NewServer(newApplication("a", journal).handler())
	defer server.Close()
	overGRPC, err := callingGRPC(listener.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	drive(t.Context(), []caller{callingHTTP(http.MethodPost, server.URL, false)}, 0, 0, 2, "h")
	drive(t.Context(), []caller{overGRPC}, 0, 0, 2, "g")
	drive(t.Context(), []caller{overGRPC}, 0, 0, 1, "")
	written, err := os.ReadFile(filepath.Join(folder, "a"))
	if err != nil || string(written) != "h1\nh2\ng1\ng2\n" {
		t.Errorf("%q, %v", written, err)
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	server := httptest.NewServer(newApplication("a", nil).handler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	short := drive(ctx, []caller{callingHTTP(http.MethodGet, server.URL, false)}, 100, time.Hour, 0, "")
	if short.Requests == 0 || short.Failed != 0 {
		t.Errorf("%+v", short)
	}
}
