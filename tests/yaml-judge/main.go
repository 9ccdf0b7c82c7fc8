// Command yaml-judge reads manifests as kubectl reads them, so that a test can compare another reader with it.
//
// It is kubectl's own path: the decoder of k8s.io/cli-runtime/pkg/resource (FileVisitor and StreamVisitor) with the
// libraries of the same release. Unlike kubectl it wants no kind and no apiVersion of a document.
//
//	yaml-judge            one input on stdin; each non-empty document becomes one line of JSON
//	yaml-judge --framed   many inputs: a line with the length in bytes, then the bytes; each answered at once by one line,
//	                      {"documents":[…]} or {"error":"…"}
//
// Exit 1, with the reason on stderr, for an input that cannot be read (without --framed) or a broken frame; 2 for usage.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// How far kubectl looks for an opening brace before it takes a stream for YAML.
const lookahead = 4096

// The longest input taken: 64 MiB, far beyond what an API server accepts.
const longestInput = 64 << 20

func main() {
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) == 0:
		err = judgeOne(os.Stdin, os.Stdout)
	case len(arguments) == 1 && arguments[0] == "--framed":
		err = judgeFramed(os.Stdin, os.Stdout)
	default:
		fmt.Fprintln(os.Stderr, "usage: yaml-judge [--framed] <input")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// judgeOne prints nothing but a whole answer: no documents of an input whose end cannot be read.
func judgeOne(in io.Reader, out io.Writer) error {
	documents, err := read(in)
	if err != nil {
		return err
	}
	encoder := newEncoder(out)
	for _, document := range documents {
		if err := encoder.Encode(document); err != nil {
			return err
		}
	}
	return nil
}

type readable struct {
	Documents []any `json:"documents"`
}

type unreadable struct {
	Error string `json:"error"`
}

func judgeFramed(in io.Reader, out io.Writer) error {
	frames, encoder := bufio.NewReader(in), newEncoder(out)
	for {
		input, err := nextFrame(frames)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := encoder.Encode(answer(input)); err != nil {
			return err
		}
	}
}

func answer(input []byte) any {
	documents, err := read(bytes.NewReader(input))
	if err != nil {
		return unreadable{err.Error()}
	}
	return readable{documents}
}

// nextFrame returns io.EOF only at the end of a whole frame.
func nextFrame(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadString('\n')
	if errors.Is(err, io.EOF) && line == "" {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("frame: the length %q does not end with a newline: %v", line, err)
	}
	length, err := strconv.ParseUint(strings.TrimSuffix(line, "\n"), 10, 64)
	if err != nil || length > longestInput {
		return nil, fmt.Errorf("frame: %q is not a length of at most %d bytes", line, longestInput)
	}
	input := make([]byte, length)
	if _, err := io.ReadFull(in, input); err != nil {
		return nil, fmt.Errorf("frame: fewer than the %d bytes announced", length)
	}
	return input, nil
}

// read returns the documents of a stream, in order, without empty ones. Never nil without an error.
func read(in io.Reader) (documents []any, err error) {
	defer func() {
		// A reader that panics ends kubectl; here it is one more input that cannot be read.
		if panicked := recover(); panicked != nil {
			documents, err = nil, fmt.Errorf("panic: %v", panicked)
		}
	}()
	documents = []any{}
	// FileVisitor: a byte order mark is dropped, and UTF-16 is understood by it.
	marked := transform.NewReader(in, unicode.BOMOverride(unicode.UTF8.NewDecoder()))
	decoder := yaml.NewYAMLOrJSONDecoder(marked, lookahead)
	for {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		raw.Raw = bytes.TrimSpace(raw.Raw)
		if len(raw.Raw) == 0 || bytes.Equal(raw.Raw, []byte("null")) {
			continue
		}
		document, err := exact(raw.Raw)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

// exact keeps each number as its text; of a key that a JSON object repeats the last value counts.
func exact(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

func newEncoder(out io.Writer) *json.Encoder {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder
}
