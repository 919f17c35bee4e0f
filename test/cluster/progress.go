// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// heartbeat is how often a long stage says that it is still at work.
const heartbeat = 30 * time.Second

// progress says what is being done and how far it is: on a terminal in one line that changes, elsewhere in lines.
type progress struct {
	out      io.Writer
	terminal bool
}

func newProgress(out *os.File) *progress {
	stat, err := out.Stat()
	return &progress{out: out, terminal: err == nil && stat.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"}
}

// do runs one stage and shows it.
func (p *progress) do(number, of int, name, hint string, work func() error) error {
	started := time.Now()
	line := func(what string) string {
		return fmt.Sprintf("[%2d/%d] %-20s %s", number, of, name, what)
	}
	done := make(chan error, 1)
	go func() { done <- work() }()
	tick := time.NewTicker(p.interval())
	defer tick.Stop()
	shown := false
	for {
		select {
		case err := <-done:
			took := time.Since(started).Round(100 * time.Millisecond)
			what := fmt.Sprintf("done in %s", took)
			if err != nil {
				what = fmt.Sprintf("failed after %s", took)
			}
			if p.terminal && shown {
				fmt.Fprint(p.out, "\r\033[K")
			}
			fmt.Fprintln(p.out, line(what))
			return err
		case <-tick.C:
			shown = true
			what := fmt.Sprintf("%s (%s)", time.Since(started).Round(time.Second), hint)
			if p.terminal {
				fmt.Fprint(p.out, "\r\033[K"+line(what))
			} else {
				fmt.Fprintln(p.out, line(what))
			}
		}
	}
}

func (p *progress) interval() time.Duration {
	if p.terminal {
		return time.Second
	}
	return heartbeat
}
