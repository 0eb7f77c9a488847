{{/* A quantity as a number: bytes, cores or devices. */}}
{{- define "assay.amount" -}}
{{- $factors := dict "" 1.0 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 -}}
{{- $text := include "assay.plain" . -}}
{{- mulf (regexFind "^[0-9.]+" $text | float64) (index $factors (regexFind "[A-Za-z]*$" $text)) -}}
{{- end -}}

{{/* Refuses resources that Kubernetes refuses, and GPUs in a second place. A values file that sets one
     of request and limit leaves the default of the other. Takes root. */}}
{{- define "assay.refuseResources" -}}
{{- $root := . -}}
{{- range $path := include "assay.podTemplates" . | fromYaml | values | uniq | sortAlpha -}}
{{- $part := $root.Values -}}
{{- range splitList "." $path }}{{ $part = index $part . }}{{ end -}}
{{- $limits := $part.resources.limits | default dict -}}
{{- $requests := $part.resources.requests | default dict -}}
{{- if hasKey $part "gpuResource" -}}
{{- $domain := regexFind "^[^/]*/" $part.gpuResource -}}
{{- range $kind, $list := dict "limits" $limits "requests" $requests -}}
{{- range $key, $_ := $list -}}
{{- if hasPrefix $domain $key -}}
{{- fail (printf "%s.resources.%s.%s: GPUs come from %s.gpus, %s.gpuResource and %s.accelerator; set these" $path $kind $key $path $path $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $request := $requests -}}
{{- $limit := get $limits $key | toString -}}
{{- $above := and $limit (gt (include "assay.amount" $request | float64) (include "assay.amount" (get $limits $key) | float64)) -}}
{{- if $above -}}
{{- fail (printf "%s.resources.requests.%s: %v is above %s.resources.limits.%s: %s; set both" $path $key $request $path $key $limit) -}}
{{- end -}}
{{- $device := or (contains "/" $key) (hasPrefix "hugepages-" $key) -}}
{{- if and $device (ne (include "assay.plain" $request) (include "assay.plain" (get $limits $key))) -}}
{{- fail (printf "%s.resources.requests.%s: a device or huge page needs the same in %s.resources.limits" $path $key $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
