{{/* Options of the engine's own. Several GPUs hold one model together, unless it is said otherwise:
     by an option, or by several processes. Takes the part. */}}
{{- define "assay.engineArguments" -}}
{{- $split := regexMatch "--(tensor|pipeline|data)-parallel-size" .arguments -}}
{{- $processes := hasKey (.environment | default dict) "ASSAY_INFERENCE_PROCESSES" -}}
{{- $arguments := .arguments -}}
{{- if and (eq .engine "vllm") (eq .accelerator "nvidia") (gt (int .gpus) 1) (not $split) (not $processes) -}}
{{- $arguments = printf "%s --tensor-parallel-size %d" $arguments (int .gpus) | trim -}}
{{- end -}}
{{- $arguments -}}
{{- end -}}
