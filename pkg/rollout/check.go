// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// CheckTable refuses what Knative's webhook would refuse (serving, pkg/apis/serving/v1/route_validation.go), and tags
// that make no host name, before anything is written. All mistakes are named together.
func CheckTable(table []Entry, service, namespace string) error {
	var problems []string
	var sum int64
	tags := map[string]int{}
	for i, entry := range table {
		sum += entry.Percent
		if entry.Percent < 0 || entry.Percent > 100 {
			problems = append(problems, fmt.Sprintf("traffic[%d]: %d%% is not between 0 and 100", i, entry.Percent))
		}
		if entry.Tag == "" {
			continue
		}
		if at, taken := tags[entry.Tag]; taken {
			problems = append(problems, fmt.Sprintf("traffic[%d] and traffic[%d] have the same tag %s: a tag names one target", at, i, entry.Tag))
		}
		tags[entry.Tag] = i
		if err := CheckTag(entry.Tag, service, namespace); err != nil {
			problems = append(problems, err.Error())
		}
	}
	if sum != 100 {
		problems = append(problems, fmt.Sprintf("the percentages sum to %d, want 100", sum))
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// CheckTag refuses a tag that Knative would refuse, or for which no host name could be made.
func CheckTag(tag, service, namespace string) error {
	if mistakes := validation.IsDNS1035Label(tag); len(mistakes) > 0 {
		return fmt.Errorf("tag %q: must be lower-case letters, digits and '-', begin with a letter, end with a letter or digit, and have at most 63 of them", tag)
	}
	if label := tag + "-" + service + "-" + namespace; len(label) > validation.DNS1035LabelMaxLength {
		return fmt.Errorf("tag %q: %s has %d characters, and a host name's label at most %d: take a shorter tag",
			tag, label, len(label), validation.DNS1035LabelMaxLength)
	}
	return nil
}
