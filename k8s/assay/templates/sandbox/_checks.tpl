{{/* Version of Kubernetes, as the cluster or `--kube-version` has it. Takes root. */}}
{{- define "assay.kubernetes" -}}
{{- .Capabilities.KubeVersion.Version -}}
{{- end -}}

{{/* Refuses a sandbox that could not start, or whose programs could not have their memory. Takes
     root. */}}
{{- define "assay.refuseSandbox" -}}
{{- $part := .Values.sandbox -}}
{{- if $part.enabled -}}
{{- $version := include "assay.kubernetes" . -}}
{{- $namespaces := eq $part.isolation "userNamespaces" -}}
{{- if and $namespaces (not $part.allowBeta) (semverCompare "<1.33.0-0" $version) -}}
{{- fail (printf "sandbox.isolation: userNamespaces needs Kubernetes 1.33 and this is %s, which drops hostUsers and procMount unless its API server and kubelets have the feature gates UserNamespacesSupport and ProcMountType; then set sandbox.allowBeta: true, else sandbox.isolation: gvisor" $version) -}}
{{- end -}}
{{- $limit := dig "limits" "memory" "" ($part.resources | default dict) -}}
{{- if not $limit -}}
{{- fail "sandbox.resources.limits.memory is missing: programs could use up the node's memory" -}}
{{- end -}}
{{- $slots := ternary (int $part.slots) 1 $namespaces -}}
{{- $environment := $part.environment | default dict -}}
{{- $writable := include "assay.mebibytes" (include "assay.plain" (index $environment "ASSAY_SANDBOX_WRITABLE_BYTES" | default "64Mi")) | int64 -}}
{{- $needed := add (mul $slots (add 512 (mul 3 $writable))) 200 (include "assay.mebibytes" $part.tmp | int64) -}}
{{- if lt (include "assay.mebibytes" $limit | int64) $needed -}}
{{- fail (printf "sandbox.resources.limits.memory: %s is too little for sandbox.slots: %d; it needs %dMi, slots x (512Mi + 3 x %dMi) + 200Mi + sandbox.tmp" $limit $slots $needed $writable) -}}
{{- end -}}
{{- end -}}
{{- end -}}
