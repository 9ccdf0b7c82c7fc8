package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestReadsAsKubectlDoes(t *testing.T) {
	cases := []struct{ name, input, want string }{
		{"YAML 1.1 scalars", "{a: yes, b: 'yes', c: 0o7, d: 010, e: 1_000, f: ~}", `{"a":true,"b":"yes","c":7,"d":8,"e":1000,"f":null}`},
		{"a key that is a boolean", "on: 1", `{"true":1}`},
		{"a repeated key", "a: 1\na: 2", `{"a":2}`},
		{"anchors and merge keys", "a: &x {b: 1}\nc: {<<: *x, d: 2}", `{"a":{"b":1},"c":{"b":1,"d":2}}`},
		{"documents and empty documents", "---\n---\na: 1\n--- # why\n# only this\n---\nb: 2\n---\n", "{\"a\":1}\n{\"b\":2}"},
		{"a JSON stream", `{"a":1}{"b":2} {"c":3}`, "{\"a\":1}\n{\"b\":2}\n{\"c\":3}"},
		{"JSON, then YAML", "{\"a\":1}\n---\nb: 2\n", "{\"a\":1}\n{\"b\":2}"},
		{"carriage returns", "a: 1\r\n---\r\nb: 2\r\n", "{\"a\":1}\n{\"b\":2}"},
		{"a byte order mark", "\ufeffa: 1", `{"a":1}`},
		{"UTF-16 by its mark", "\xff\xfea\x00:\x00 \x001\x00", `{"a":1}`},
		{"exact numbers", `{"a":1.10,"b":123456789012345678901234567890,"c":1e3}`, `{"a":1.10,"b":123456789012345678901234567890,"c":1e3}`},
		{"no HTML escapes", `a: "<&>"`, `{"a":"<&>"}`},
		{"nothing", "", ""},
	}
	for _, c := range cases {
		var out bytes.Buffer
		if err := judgeOne(strings.NewReader(c.input), &out); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := strings.TrimSuffix(out.String(), "\n"); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRefusesWhatKubectlRefuses(t *testing.T) {
	for name, input := range map[string]string{
		"text after a separator": "a: 1\n--- b: 2\n",
		"a tab as indentation":   "a:\n\tb: 1\n",
		"an unclosed bracket":    "a: [1\n",
		"an unknown alias":       "a: *x\n",
		"a bad second document":  "a: 1\n---\nb: [\n",
	} {
		var out bytes.Buffer
		if err := judgeOne(strings.NewReader(input), &out); err == nil || out.Len() > 0 {
			t.Errorf("%s: error %v, output %q", name, err, out.String())
		}
	}
}

func TestAnswersEachFrameWithOneLine(t *testing.T) {
	var out bytes.Buffer
	if err := judgeFramed(strings.NewReader("4\na: 1"+"0\n"+"4\na: ["+"13\na: 1\n---\nb: 2"), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("got %d lines: %q", len(lines), lines)
	}
	for i, want := range []string{`{"documents":[{"a":1}]}`, `{"documents":[]}`, `{"error":"`, `{"documents":[{"a":1},{"b":2}]}`} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d: got %s, want %s", i, lines[i], want)
		}
	}
}

func TestRefusesABrokenFrame(t *testing.T) {
	for _, input := range []string{"4\na:", "x\n", "-1\n", "4", "99999999999\n"} {
		if err := judgeFramed(strings.NewReader(input), &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken for frames", input)
		}
	}
}

// The judge says what kubectl reads only as long as both are built with the same readers.
func TestUsesTheReadersOfKubectl(t *testing.T) {
	kubectl, own := modules(t, "../cluster/tools/kubectl/go.mod"), modules(t, "go.mod")
	for _, module := range []string{"k8s.io/apimachinery", "sigs.k8s.io/yaml", "sigs.k8s.io/json", "go.yaml.in/yaml/v2", "golang.org/x/text"} {
		if own[module] == "" || own[module] != kubectl[module] {
			t.Errorf("%s: the judge has %q, kubectl %q", module, own[module], kubectl[module])
		}
	}
}

func modules(t *testing.T, path string) map[string]string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^(?:require)?\s+(\S+) (v\S+)`).FindAllSubmatch(text, -1) {
		versions[string(match[1])] = string(match[2])
	}
	return versions
}
