// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package registry asks an image registry what it has, with the pull secrets of a run's service account.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	authnkubernetes "github.com/google/go-containerregistry/pkg/authn/kubernetes"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sluice-dev/sluice/pkg/access"
)

// timeout bounds one question: a registry that is slower than this does not save a build.
const timeout = 10 * time.Second

// Access answers whether a service account may do something.
type Access interface {
	Allowed(ctx context.Context, subject access.Subject, action access.Action) error
}

// Client asks registries.
type Client struct {
	Kube      kubernetes.Interface
	Access    Access
	Transport http.RoundTripper
}

// Digest returns the digest of an image that the registry has under a tag; empty if it has none. A registry that cannot
// be asked (no rights, no answer) is an error, and whoever asks builds the image.
func (c Client) Digest(ctx context.Context, subject access.Subject, image string) (string, error) {
	ref, err := name.NewTag(image, name.WeakValidation)
	if err != nil {
		return "", fmt.Errorf("%q is not an image: %w", image, err)
	}
	keychain, err := c.keychain(ctx, subject)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	descriptor, err := remote.Head(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain), remote.WithTransport(c.Transport))
	var answer *transport.Error
	switch {
	case err == nil:
		return descriptor.Digest.String(), nil
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return "", nil
	case errors.As(err, &answer):
		return "", fmt.Errorf("the registry answered %d", answer.StatusCode)
	default:
		return "", errors.New("the registry did not answer")
	}
}

// keychain is made of the secrets that the service account names and may read.
func (c Client) keychain(ctx context.Context, subject access.Subject) (authn.Keychain, error) {
	account, err := c.Kube.CoreV1().ServiceAccounts(subject.Namespace).Get(ctx, subject.ServiceAccount, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return authn.NewMultiKeychain(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read service account %s: %w", subject.ServiceAccount, err)
	}
	var secrets []corev1.Secret
	for _, secret := range secretNames(account) {
		action := access.Action{Verb: "get", Resource: "secrets", Name: secret}
		if c.Access.Allowed(ctx, subject, action) != nil {
			continue
		}
		found, err := c.Kube.CoreV1().Secrets(subject.Namespace).Get(ctx, secret, metav1.GetOptions{})
		if err != nil {
			continue
		}
		secrets = append(secrets, *found)
	}
	return authnkubernetes.NewFromPullSecrets(ctx, secrets)
}

func secretNames(account *corev1.ServiceAccount) []string {
	var names []string
	for _, secret := range account.ImagePullSecrets {
		names = append(names, secret.Name)
	}
	for _, secret := range account.Secrets {
		names = append(names, secret.Name)
	}
	return names
}
