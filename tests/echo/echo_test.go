package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestFlakyAnswersAfterSoManyFailures(t *testing.T) {
	server := httptest.NewServer(newApplication("a").handler())
	defer server.Close()
	for n, expected := range []int{503, 503, 200, 200} {
		answer, err := http.Get(server.URL + "/flaky?id=x&times=2")
		if err != nil || answer.StatusCode != expected {
			t.Fatalf("call %d: %v, %v", n, answer, err)
		}
	}
}

func TestLoadCountsWhoAnswersAndWhatFails(t *testing.T) {
	server := httptest.NewServer(newApplication("a").handler())
	defer server.Close()
	good := drive(t.Context(), []caller{callingHTTP(http.MethodGet, server.URL, false)}, 0, 100*time.Millisecond)
	if good.Requests == 0 || good.Failed != 0 || good.ServedBy["a"] != good.Requests || good.P99 < good.P50 {
		t.Errorf("%+v", good)
	}
	bad := drive(t.Context(), []caller{callingHTTP(http.MethodGet, server.URL+"/status?code=500", false)}, 100, 100*time.Millisecond)
	if bad.Requests == 0 || bad.Failed != bad.Requests || bad.Failures[0].Reason != "status 500" {
		t.Errorf("%+v", bad)
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	server := httptest.NewServer(newApplication("a").handler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	short := drive(ctx, []caller{callingHTTP(http.MethodGet, server.URL, false)}, 100, time.Hour)
	if short.Requests == 0 || short.Failed != 0 {
		t.Errorf("%+v", short)
	}
}
