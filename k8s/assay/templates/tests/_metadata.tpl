{{/* Of a pod of `helm test`. Takes a context with name and network. */}}
{{- define "assay.testMetadata" -}}
{{- $hook := dict "helm.sh/hook" "test" "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" -}}
{{- $pod := include "assay.podMetadata" . | fromYaml -}}
{{- $annotations := merge $hook (.part.annotations | default dict) ($pod.annotations | default dict) -}}
{{- $object := include "assay.metadata" (dict "root" .root "component" .component "name" .name "annotations" $annotations) | fromYaml -}}
{{- toYaml (merge (dict "labels" (merge (dict) $pod.labels $object.labels)) $object) -}}
{{- end -}}
