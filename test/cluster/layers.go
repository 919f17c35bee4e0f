// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// layer writes one layer of an image: a tar file whose folders are made as they are needed.
type layer struct {
	file *os.File
	tar  *tar.Writer
	made map[string]bool
	err  error
}

func newLayer(path string) *layer {
	file, err := os.Create(path)
	if err != nil {
		return &layer{err: err}
	}
	return &layer{file: file, tar: tar.NewWriter(file), made: map[string]bool{".": true}}
}

func (l *layer) close() error {
	if l.err != nil {
		return l.err
	}
	if err := l.tar.Close(); err != nil {
		return err
	}
	return l.file.Close()
}

func (l *layer) write(header *tar.Header, content io.Reader) {
	if l.err != nil {
		return
	}
	header.Name = strings.TrimPrefix(header.Name, "/")
	l.folder(filepath.Dir(header.Name), 0o755)
	if l.err = l.tar.WriteHeader(header); l.err == nil && content != nil {
		_, l.err = io.Copy(l.tar, content)
	}
}

func (l *layer) folder(path string, mode int64) {
	path = strings.TrimPrefix(path, "/")
	if l.err != nil || path == "" || l.made[path] {
		return
	}
	l.made[path] = true
	l.folder(filepath.Dir(path), 0o755)
	if l.err == nil {
		l.err = l.tar.WriteHeader(&tar.Header{Name: path + "/", Typeflag: tar.TypeDir, Mode: mode})
	}
}

func (l *layer) text(path, text string, mode int64) {
	l.write(&tar.Header{Name: path, Mode: mode, Size: int64(len(text))}, strings.NewReader(text))
}

func (l *layer) link(path, to string) {
	l.write(&tar.Header{Name: path, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}, nil)
}

// copyFile copies a file of the host, following links.
func (l *layer) copyFile(path, from string) {
	if l.err != nil {
		return
	}
	file, err := os.Open(from)
	if err != nil {
		l.err = err
		return
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		l.err = err
		return
	}
	l.write(&tar.Header{Name: path, Mode: int64(stat.Mode().Perm()), Size: stat.Size(), ModTime: stat.ModTime()}, file)
}

// copyTree copies a folder of the host, without what skip says.
func (l *layer) copyTree(path, from string, skip func(relative string) bool) {
	if l.err != nil {
		return
	}
	l.err = filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		switch {
		case relative != "." && skip(relative) && entry.IsDir():
			return filepath.SkipDir
		case skip(relative) || !entry.Type().IsRegular():
			return nil
		}
		l.copyFile(filepath.Join(path, relative), file)
		return l.err
	})
}

// copyProgram copies a program of the host with the shared libraries that it needs.
func (l *layer) copyProgram(ctx context.Context, path, from string) {
	if l.err != nil || l.made["file:"+path] {
		return
	}
	l.made["file:"+path] = true
	l.copyFile(path, from)
	out, err := output(ctx, "/", nil, "ldd", from)
	if err != nil {
		return // A static program.
	}
	for _, line := range strings.Split(out, "\n") {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") && !l.made["file:"+word] {
				l.made["file:"+word] = true
				l.copyFile(word, word)
			}
		}
	}
}

// people adds the users and the folders that programs expect.
func (l *layer) people() {
	l.text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnonroot:x:65532:65532:nonroot:/home/nonroot:/bin/false\n", 0o644)
	l.text("/etc/group", "root:x:0:\nnonroot:x:65532:\n", 0o644)
	l.text("/etc/nsswitch.conf", "hosts: files dns\n", 0o644)
	l.copyFile("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/ca-certificates.crt")
	l.folder("tmp", 0o1777)
	l.folder("root", 0o700)
}

// shell adds busybox, as every command that it knows.
func (l *layer) shell(ctx context.Context) {
	l.copyFile("/bin/busybox", "/usr/bin/busybox")
	out, err := output(ctx, "/", nil, "/usr/bin/busybox", "--list")
	if err != nil {
		l.err = fmt.Errorf("busybox: %w", err)
		return
	}
	for _, applet := range strings.Fields(out) {
		if applet != "busybox" {
			l.link("/bin/"+applet, "busybox")
		}
	}
}
