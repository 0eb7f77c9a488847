{{/* Prefix of every object: the release, and the chart where the release does not name it. */}}
{{- define "assay.fullname" -}}
{{- if contains "assay" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-assay" (.Release.Name | trunc 34 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* Labels by which a component's pods are found. Takes root and component. */}}
{{- define "assay.selector" -}}
app.kubernetes.io/name: assay
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of every object. Takes root and component. */}}
{{- define "assay.labels" -}}
{{ include "assay.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: assay
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* Name and labels of an object. Takes root, component and, where it differs, name. */}}
{{- define "assay.metadata" -}}
name: {{ include "assay.fullname" .root }}-{{ .name | default .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "assay.labels" . | nindent 2 }}
{{- end -}}

{{/* An image of ours. Takes root, part and suffix. */}}
{{- define "assay.image" -}}
{{- $image := .part.image -}}
{{- $name := $image.name -}}
{{- if .root.Values.image.registry -}}
{{- $name = printf "%s/%s" (trimSuffix "/" .root.Values.image.registry) $name -}}
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
{{- if and .Values.inference.enabled (gt (int .Values.inference.replicas) 1) -}}true{{- end -}}
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
