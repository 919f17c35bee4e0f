// Copyright 2026 The Sluice Authors
// SPDX-License-Identifier: Apache-2.0

// Package informers is what the controller watches. Of everything but CustomRuns only the metadata is kept: a watch is
// there to wake somebody, who then reads live what it needs; so the controller stays small in a cluster with many of
// them.
package informers

import (
	"context"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	pipelineruninformer "github.com/tektoncd/pipeline/pkg/client/injection/informers/pipeline/v1/pipelinerun"
	taskruninformer "github.com/tektoncd/pipeline/pkg/client/injection/informers/pipeline/v1/taskrun"
	customruninformer "github.com/tektoncd/pipeline/pkg/client/injection/informers/pipeline/v1beta1/customrun"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	routeinformer "knative.dev/serving/pkg/client/injection/informers/serving/v1/route"
	serviceinformer "knative.dev/serving/pkg/client/injection/informers/serving/v1/service"

	"github.com/sluice-dev/sluice/pkg/apis/sluice/v1alpha1"
	"github.com/sluice-dev/sluice/pkg/rollout"
	"github.com/sluice-dev/sluice/pkg/steps/step"
)

const (
	// byTarget indexes CustomRuns by the Service they have pinned.
	byTarget = "sluice-target"
	// byHolder indexes Services by the UID of the run that holds a rollout on them.
	byHolder = "sluice-holder"
)

// Set is everything watched.
type Set struct {
	CustomRuns   cache.SharedIndexInformer
	Services     cache.SharedIndexInformer
	Routes       cache.SharedIndexInformer
	PipelineRuns cache.SharedIndexInformer
	TaskRuns     cache.SharedIndexInformer
}

// Get takes the informers from the context.
func Get(ctx context.Context) *Set {
	return &Set{
		CustomRuns:   customruninformer.Get(ctx).Informer(),
		Services:     serviceinformer.Get(ctx).Informer(),
		Routes:       routeinformer.Get(ctx).Informer(),
		PipelineRuns: pipelineruninformer.Get(ctx).Informer(),
		TaskRuns:     taskruninformer.Get(ctx).Informer(),
	}
}

// Prepare slims what the informers keep, and adds the indexes; once, and before they start.
func (s *Set) Prepare() error {
	for informer, slim := range map[cache.SharedIndexInformer]cache.TransformFunc{
		s.CustomRuns:   slimCustomRun,
		s.Services:     slimService,
		s.Routes:       slimTo(func(m metav1.ObjectMeta) any { return &servingv1.Route{ObjectMeta: m} }),
		s.PipelineRuns: slimTo(func(m metav1.ObjectMeta) any { return &pipelinev1.PipelineRun{ObjectMeta: m} }),
		s.TaskRuns:     slimTo(func(m metav1.ObjectMeta) any { return &pipelinev1.TaskRun{ObjectMeta: m} }),
	} {
		if err := informer.SetTransform(slim); err != nil {
			return err
		}
	}
	if err := s.CustomRuns.AddIndexers(cache.Indexers{byTarget: targetKey}); err != nil {
		return err
	}
	return s.Services.AddIndexers(cache.Indexers{byHolder: holderKey})
}

// slimCustomRun drops who wrote what, and of other controllers' runs all but the metadata and what kind they are.
func slimCustomRun(object any) (any, error) {
	if run, ok := object.(*v1beta1.CustomRun); ok {
		run.ManagedFields = nil
	}
	return object, nil
}

// slimService keeps the metadata, and of the annotations the rollout's memory.
func slimService(object any) (any, error) {
	service, ok := object.(*servingv1.Service)
	if !ok {
		return object, nil
	}
	memory, has := service.Annotations[v1alpha1.RolloutAnnotation]
	slim := &servingv1.Service{ObjectMeta: meta(service.ObjectMeta)}
	if has {
		slim.Annotations = map[string]string{v1alpha1.RolloutAnnotation: memory}
	}
	return slim, nil
}

// slimTo keeps the metadata, in an object of the type that the informer's lister wants.
func slimTo(build func(metav1.ObjectMeta) any) cache.TransformFunc {
	return func(object any) (any, error) {
		if full, ok := object.(metav1.ObjectMetaAccessor); ok {
			if m, ok := full.GetObjectMeta().(*metav1.ObjectMeta); ok {
				return build(meta(*m)), nil
			}
		}
		return object, nil
	}
}

func meta(full metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: full.Name, Namespace: full.Namespace, UID: full.UID, ResourceVersion: full.ResourceVersion,
		Generation: full.Generation, DeletionTimestamp: full.DeletionTimestamp, OwnerReferences: full.OwnerReferences,
	}
}

func targetKey(object any) ([]string, error) {
	run, ok := object.(*v1beta1.CustomRun)
	if !ok || len(run.Status.ExtraFields.Raw) == 0 {
		return nil, nil
	}
	state, err := step.ReadState(run)
	if err != nil || state.Target == nil {
		return nil, nil //nolint:nilerr // Another controller's extraFields are not ours to index.
	}
	return []string{run.Namespace + "/" + state.Target.Name}, nil
}

func holderKey(object any) ([]string, error) {
	service, ok := object.(*servingv1.Service)
	if !ok {
		return nil, nil
	}
	memory, err := rollout.DecodeMemory(service.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil || !memory.UnderWay() {
		return nil, nil //nolint:nilerr // An unreadable memory has no holder that could be waited for.
	}
	return []string{string(memory.Holder.UID)}, nil
}

// OnTarget lists the runs, finished ones too, that have a Service pinned.
func (s *Set) OnTarget(namespace, name string) ([]*v1beta1.CustomRun, error) {
	objects, err := s.CustomRuns.GetIndexer().ByIndex(byTarget, namespace+"/"+name)
	if err != nil {
		return nil, err
	}
	runs := make([]*v1beta1.CustomRun, 0, len(objects))
	for _, object := range objects {
		if run, ok := object.(*v1beta1.CustomRun); ok {
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// UnfinishedOn names the unfinished runs that have a Service pinned, given it or an object of its name.
func (s *Set) UnfinishedOn(object any) []types.NamespacedName {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	named, ok := object.(metav1.Object)
	if !ok {
		return nil
	}
	runs, err := s.OnTarget(named.GetNamespace(), named.GetName())
	if err != nil {
		return nil
	}
	var keys []types.NamespacedName
	for _, run := range runs {
		if run.Status.CompletionTime == nil {
			keys = append(keys, types.NamespacedName{Namespace: run.Namespace, Name: run.Name})
		}
	}
	return keys
}

// HeldBy names the Services with a rollout under way that a run holds.
func (s *Set) HeldBy(holder types.UID) []types.NamespacedName {
	objects, err := s.Services.GetIndexer().ByIndex(byHolder, string(holder))
	if err != nil {
		return nil
	}
	var keys []types.NamespacedName
	for _, object := range objects {
		if service, ok := object.(metav1.Object); ok {
			keys = append(keys, types.NamespacedName{Namespace: service.GetNamespace(), Name: service.GetName()})
		}
	}
	return keys
}

// Unfinished reports whether a holder has a run of ours that is not finished.
func (s *Set) Unfinished(namespace string, holder types.UID) (bool, error) {
	objects, err := s.CustomRuns.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return false, err
	}
	for _, object := range objects {
		run, ok := object.(*v1beta1.CustomRun)
		if !ok || run.Status.CompletionTime != nil || run.DeletionTimestamp != nil {
			continue
		}
		if run.UID == holder {
			return true, nil
		}
		if owner := metav1.GetControllerOf(run); owner != nil && owner.UID == holder {
			return true, nil
		}
		if state, err := step.ReadState(run); err == nil && state.Holder != nil && state.Holder.UID == holder {
			return true, nil
		}
	}
	return false, nil
}
