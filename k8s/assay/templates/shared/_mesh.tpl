{{/* The port at which a mesh's traffic enters a pod, beside the application's own. Takes root. */}}
{{- define "assay.meshPort" -}}
{{- get (dict "ambient" "15008" "linkerd" "4143") .Values.mesh.kind -}}
{{- end -}}

{{/* Namespace of the mesh's control plane. Takes root. */}}
{{- define "assay.meshNamespace" -}}
{{- .Values.mesh.namespace | default (ternary "linkerd" "istio-system" (eq .Values.mesh.kind "linkerd")) -}}
{{- end -}}

{{/* Whether a pod joins the mesh: `in` or `out`; nothing without a mesh. A sandbox has no way out,
     to a control plane neither. A download talks only to its hub. A classic sidecar would outlive
     a run and a test. Takes root and place. */}}
{{- define "assay.meshed" -}}
{{- if ne .root.Values.mesh.kind "none" -}}
{{- $ends := or (eq .place "test") (and (eq .place "trainer") (eq .root.Values.trainer.kind "Job")) -}}
{{- if has .place (list "sandbox" "nowhere" "download") -}}out
{{- else if and $ends (ne .root.Values.mesh.kind "ambient") (not .root.Values.mesh.nativeSidecars) -}}out
{{- else -}}in
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels by which the mesh takes a pod or leaves it. Takes root and place. */}}
{{- define "assay.meshLabels" -}}
{{- $meshed := include "assay.meshed" . -}}
{{- if $meshed -}}
{{- if eq .root.Values.mesh.kind "istio" }}
sidecar.istio.io/inject: {{ eq $meshed "in" | quote }}
{{- else if eq .root.Values.mesh.kind "ambient" }}
istio.io/dataplane-mode: {{ ternary "ambient" "none" (eq $meshed "in") }}
sidecar.istio.io/inject: "false"
{{- end }}
{{- end -}}
{{- end -}}

{{/* Annotations for the same, and for sidecars that end with their pod. Takes root and place. */}}
{{- define "assay.meshAnnotations" -}}
{{- $meshed := include "assay.meshed" . -}}
{{- $native := and (eq $meshed "in") .root.Values.mesh.nativeSidecars -}}
{{- if $meshed -}}
{{- if eq .root.Values.mesh.kind "linkerd" }}
linkerd.io/inject: {{ ternary "enabled" "disabled" (eq $meshed "in") }}
{{- if $native }}
config.alpha.linkerd.io/proxy-enable-native-sidecar: "true"
config.beta.linkerd.io/proxy-enable-native-sidecar: "true"
{{- end }}
{{- else if and (eq .root.Values.mesh.kind "istio") $native }}
sidecar.istio.io/nativeSidecar: "true"
{{- end }}
{{- end -}}
{{- end -}}
