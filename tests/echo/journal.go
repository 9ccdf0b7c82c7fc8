package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// requestID is the header, of HTTP and gRPC, that tells requests apart.
const requestID = "X-Request-Id"

// journal is a file with the id of each request that was taken, a line each, which outlives the process.
type journal struct {
	file *os.File
}

// openJournal goes on with the file of this name in a folder; without a folder nothing is written down.
func openJournal(folder, name string) (*journal, error) {
	if folder == "" {
		return nil, nil
	}
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return &journal{file}, err
}

// add writes an id down. One write of O_APPEND is never mixed with another. What cannot be written ends the process: a
// journal with gaps would hide what it is for.
func (j *journal) add(id string) {
	if j == nil || id == "" {
		return
	}
	if _, err := fmt.Fprintln(j.file, id); err != nil {
		panic(err)
	}
}
