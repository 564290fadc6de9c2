package git_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/provider/git"
)

// Surfaces 1.2.6: whatever is in names and messages, each commit is one row with the right fields.
func TestOddTextStaysInItsField(t *testing.T) {
	r := newRepo(t)
	head := func(author, at string) string {
		return "tree TREE\nauthor " + author + " " + at + "\ncommitter C <c@d> " + at + "\n"
	}
	const at = "1709251200 +0000"
	ids := map[string]string{
		"separators": r.raw(head("A\x1fB\x1e <a\x1f@b>", at) + "\nsub\x1fject\x1e with\ttabs\nsecond line\n\nbody\x1f\n"),
		"nul":        r.raw(head("A <a@b>", at) + "\nbefore\x00after\n"),
		"no message": r.raw(head("A <a@b>", at) + "\n"),
		"no name":    r.raw(head("<>", at) + "\nx\n"),
		"no date":    r.raw(head("A <a@b>", "") + "\nx\n"),
		"bytes":      r.raw(head("Ren\xe9 <r\xff@b>", at) + "\ncaf\xe9 \\xe9\n"),
		"latin-1":    r.raw(head("Ren\xe9 <r@b>", at) + "encoding ISO-8859-1\n\ncaf\xe9\n"),
		"utf-8":      r.raw(head("Renée ☃ <r@b>", at) + "\n雪\r\n"),
		"long":       r.raw(head("A <a@b>", at) + "\n" + strings.Repeat("x", 200_000) + "\n"),
		"mergetag":   r.raw(head("A <a@b>", at) + "gpgsig -----BEGIN\n \x1f\n -----END\n\nsigned\n"),
	}
	rows, result := sync(t, provide(t, r), unit(git.Commits, everything))
	require.Len(t, rows, len(ids))
	require.Equal(t, len(ids), result.Rows)
	by := map[string]row{}
	for _, row := range rows {
		by[row.text("sha")] = row
	}
	get := func(name string) row { require.Contains(t, by, ids[name], name); return by[ids[name]] }

	require.Equal(t, row{
		"sha": ids["separators"], "parents": "", "author_name": "A\x1fB\x1e", "author_email": "a\x1f@b",
		"author_time": "2024-03-01T00:00:00Z", "committer_time": "2024-03-01T00:00:00Z",
		"subject": "sub\x1fject\x1e with\ttabs second line", "encoding_repaired": false,
	}, get("separators"))
	require.Equal(t, "before", get("nul")["subject"])
	require.Equal(t, "", get("no message")["subject"])
	require.Equal(t, "", get("no name")["author_name"])
	require.Nil(t, get("no date")["author_time"])
	require.Nil(t, get("no date")["committer_time"])
	require.Equal(t, `Ren\xe9`, get("bytes")["author_name"])
	require.Equal(t, `r\xff@b`, get("bytes")["author_email"])
	require.Equal(t, `caf\xe9 \xe9`, get("bytes")["subject"])
	require.Equal(t, true, get("bytes")["encoding_repaired"])
	require.Equal(t, "René", get("latin-1")["author_name"])
	require.Equal(t, "café", get("latin-1")["subject"])
	require.Equal(t, false, get("latin-1")["encoding_repaired"])
	require.Equal(t, "Renée ☃", get("utf-8")["author_name"])
	require.Len(t, get("long")["subject"], 200_000)
	require.Equal(t, "signed", get("mergetag")["subject"])
}

// Surfaces 1.2.6: paths are bytes to git. None is lost, quoted or mixed up with another.
func TestOddPathsStayWhole(t *testing.T) {
	r := newRepo(t)
	odd := []string{"tab\there", "line\nbreak", "quote\"back\\slash", " blanks ", "雪", "\x1e\x1f", "-", "0\t1"}
	for _, name := range append(odd, "caf\xe9", "caf\xe8") {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte("one\ntwo\n"), 0o644); err != nil {
			t.Skipf("this file system has no such names: %v", err)
		}
	}
	r.commit("2024-03-01T00:00:00Z", "odd")
	p := provide(t, r)
	want := sorted(append([]string{`caf\xe9`, `caf\xe8`}, odd...))
	changes, _ := sync(t, p, unit(git.Changes, month(2024, 3)))
	require.Equal(t, want, sorted(column(changes, "path")))
	files, _ := sync(t, p, unit(git.Files, everything))
	require.Equal(t, want, sorted(column(files, "path")))
	for _, row := range append(changes, files...) {
		require.Equal(t, strings.HasPrefix(row.text("path"), "caf"), row["encoding_repaired"])
	}
}

// Surfaces 1.2.6: paths are keys. Two that differ stay two, whatever bytes and backslashes are in them, and each can be
// had back from its text.
func TestPathsThatDifferStayTwo(t *testing.T) {
	r := newRepo(t)
	blob := r.run(nil, "1\n", "-C", r.dir, "hash-object", "-w", "--stdin")
	names := []string{"\xff", `\xff`, `\x5cxff`, `\\xff`, "\\\xff"}
	var tree strings.Builder
	for _, name := range names {
		tree.WriteString("100644 blob " + blob + "\t" + name + "\x00")
	}
	id := r.run(nil, tree.String(), "-C", r.dir, "mktree", "-z")
	r.git("update-ref", "refs/heads/main", r.git("commit-tree", "-m", "x", id))
	want := sorted([]string{`\xff`, `\x5cxff`, `\x5cx5cxff`, `\\x5cxff`, `\\xff`})
	for _, dataset := range []string{git.Files, git.Changes} {
		rows, _ := sync(t, provide(t, r), unit(dataset, everything))
		require.Equal(t, want, sorted(column(rows, "path")))
		for _, row := range rows {
			require.Equal(t, true, row["encoding_repaired"])
		}
	}

	escape := regexp.MustCompile(`\\x[0-9a-f]{2}`)
	var every func(prefix string, more int)
	every = func(path string, more int) {
		text, repaired := git.RepairPath(path)
		require.True(t, utf8.ValidString(text))
		require.Equal(t, text != path, repaired, "%q", path)
		require.Equal(t, path, escape.ReplaceAllStringFunc(text, func(s string) string {
			b, err := hex.DecodeString(s[len(`\x`):])
			require.NoError(t, err)
			return string(b)
		}), "%q", text)
		for i := 0; more > 0 && i < len(letters); i++ {
			every(path+letters[i:i+1], more-1)
		}
	}
	every("", 6)
}

// letters are those that a repaired byte is written with, and one that is repaired.
const letters = "\\x5c\xff"

// Surfaces 1.2.6: a record with a wrong number of fields names its commit and is never skipped.
func TestARecordThatIsNotUnderstoodFails(t *testing.T) {
	for _, record := range []string{
		"", "\x1e", "\x1eabc\x1f\x1f1\x1f2", "abc\x1f\x1f1\x1f2\x1fname\nmail\nsubject", "\x1eabc\x1f\x1f1\x1f2\x1fname\nmail",
	} {
		_, err := git.ParseCommit([]byte(record))
		require.Error(t, err, "%q", record)
	}
	_, err := git.ParseCommit([]byte("\x1eabc\x1f\x1f1\x1f2"))
	require.ErrorContains(t, err, `commit "abc"`)
	for _, record := range []string{"", "1\t2", "1\t2\t", "x\t1\tpath", "1\t\tpath", "1 2 path"} {
		_, err := git.ParseChange("abc", []byte(record))
		require.ErrorContains(t, err, `commit "abc"`, "%q", record)
	}
	_, err = git.ParseChange("", []byte("1\t2\tpath"))
	require.Error(t, err, "a change before any commit")
	for _, record := range []string{"", "100644 blob abc\tpath", "100644 blob abc 1", "100644 blob abc x\tpath"} {
		_, err := git.ParseFile([]byte(record), true)
		require.Error(t, err, "%q", record)
	}
}
