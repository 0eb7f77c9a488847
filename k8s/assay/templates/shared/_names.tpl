{{/* A name of at most so many characters. A longer one is cut, and ends with a digest of the whole:
     two long names that begin alike stay two. Takes name and room. */}}
{{- define "assay.shortened" -}}
{{- if le (len .name) (int .room) -}}
{{- .name -}}
{{- else -}}
{{- printf "%s-%s" (.name | trunc (int (sub .room 9)) | trimSuffix "-") (.name | sha256sum | trunc 8) -}}
{{- end -}}
{{- end -}}

{{/* Name of the chart in this release: an alias in a chart above, or nameOverride. Takes root. */}}
{{- define "assay.chartName" -}}
{{- include "assay.shortened" (dict "name" (.Values.nameOverride | default .Chart.Name) "room" 63) -}}
{{- end -}}

{{/* Prefix of every object: release and chart, or their name where both are called the same. Two
     releases never share it, nor do two aliases in one release. It leaves 23 characters for the
     rest: a StatefulSet's name has at most 52, as its revisions are labels. */}}
{{- define "assay.fullname" -}}
{{- $chart := include "assay.chartName" . -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (eq .Release.Name $chart) -}}
{{- include "assay.shortened" (dict "name" (.Values.fullnameOverride | default $name) "room" 40) -}}
{{- end -}}

{{/* Labels of all pods of this release, and of no alias beside it. Takes root. */}}
{{- define "assay.identity" -}}
app.kubernetes.io/name: {{ include "assay.chartName" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Labels by which a component's pods are found. Takes root and component. */}}
{{- define "assay.selector" -}}
{{ include "assay.identity" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of every object. Takes root and component. */}}
{{- define "assay.labels" -}}
{{ include "assay.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: assay
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Name, annotations and labels of an object. The labels are last: more may follow. Takes root,
     component and, where they differ, annotations, and name, or the whole name. */}}
{{- define "assay.metadata" -}}
name: {{ .whole | default (printf "%s-%s" (include "assay.fullname" .root) (.name | default .component)) | quote }}
namespace: {{ .root.Release.Namespace | quote }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "assay.labels" . | nindent 2 }}
{{- end -}}

{{/* The same for what holds pods, with the part's own annotations too. Takes also part. */}}
{{- define "assay.workloadMetadata" -}}
{{- $annotations := merge (dict) (.annotations | default dict) (.part.annotations | default dict) -}}
{{- include "assay.metadata" (dict "root" .root "component" .component "name" .name "whole" .whole "annotations" $annotations) -}}
{{- end -}}

{{/* An image of others, such as Redis: the registry of a chart above goes before a name without
     one. Takes root and image. */}}
{{- define "assay.otherImage" -}}
{{- $registry := (.root.Values.global | default dict).imageRegistry -}}
{{- if and $registry (not (regexMatch "^([^/]*[.:][^/]*|localhost)/" .image)) -}}
{{- printf "%s/%s" (trimSuffix "/" $registry) .image -}}
{{- else -}}
{{- .image -}}
{{- end -}}
{{- end -}}

{{/* An image of ours. Takes root, suffix, and part or image. */}}
{{- define "assay.image" -}}
{{- $image := .image | default .part.image -}}
{{- $name := $image.name -}}
{{- with .root.Values.image.registry | default (.root.Values.global | default dict).imageRegistry -}}
{{- $name = printf "%s/%s" (trimSuffix "/" .) $name -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- $tag := $image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion -}}
{{- printf "%s:%s%s" $name $tag (.suffix | default "") -}}
{{- end -}}
{{- end -}}

{{/* Suffix of a tag that says where an image runs. Takes a part. */}}
{{- define "assay.accelerated" -}}
{{- ternary "-cuda" "-cpu" (eq .accelerator "nvidia") -}}
{{- end -}}

{{/* Whether engines stand behind a router. */}}
{{- define "assay.routed" -}}
{{- if and .Values.inference.enabled (or .Values.inference.autoscaling.enabled (gt (int .Values.inference.replicas) 1)) -}}true{{- end -}}
{{- end -}}

{{/* Whether an autoscaler, and not the chart, says how many there are. Takes a part. */}}
{{- define "assay.scaled" -}}
{{- if .autoscaling.enabled -}}true{{- end -}}
{{- end -}}

{{/* Name of the claim that holds runs. */}}
{{- define "assay.runsClaim" -}}
{{- .Values.trainer.runs.existingClaim | default (printf "%s-runs" (include "assay.fullname" .)) -}}
{{- end -}}

{{/* Name of the claim that holds models. */}}
{{- define "assay.modelsClaim" -}}
{{- .Values.inference.modelCache.existingClaim | default (printf "%s-models" (include "assay.fullname" .)) -}}
{{- end -}}

{{/* Class of a volume: its own, or that of a chart above; nothing is the cluster's default. Takes root
     and class. */}}
{{- define "assay.storageClass" -}}
{{- with .class | default (.root.Values.global | default dict).storageClass -}}
storageClassName: {{ . | quote }}
{{- end -}}
{{- end -}}
