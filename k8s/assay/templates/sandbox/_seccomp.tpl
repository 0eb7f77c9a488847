{{/* File of the profile below the kubelet's seccomp folder: one for each version, since releases of
     several versions may share a node. Takes root. */}}
{{- define "assay.seccompProfile" -}}
{{- .Values.sandbox.seccompProfile | default (printf "assay/sandbox-%s.json" .Chart.AppVersion) -}}
{{- end -}}
