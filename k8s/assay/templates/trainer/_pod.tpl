{{/* What the service and a single run have in common. Takes root. */}}
{{- define "assay.trainerEnvironment" -}}
{{- $part := .root.Values.trainer -}}
{{- $context := dict "root" .root "part" $part -}}
{{ include "assay.shutdownGrace" $context }}
{{- include "assay.ownToken" (dict "root" .root "service" "trainer") }}
{{- include "assay.callees" (dict "root" .root "services" (list "inference" "reward")) }}
{{ include "assay.redisEnvironment" $context }}
{{ include "assay.libraries" .root }}
- {name: ASSAY_RUNS, value: /var/lib/assay/runs}
- {name: ASSAY_WEIGHT_TRANSFER, value: {{ $part.weightTransfer }}}
{{- if eq $part.weightTransfer "direct" }}
- name: ASSAY_WEIGHT_TRANSFER_HOST
  valueFrom:
    fieldRef: {fieldPath: status.podIP}
{{- end }}
{{- if $part.datasets.existingClaim }}
- {name: ASSAY_DATA, value: /var/lib/assay/data}
{{- end }}
{{- include "assay.traces" $context }}
{{- include "assay.ownEnvironment" $context }}
{{- end -}}

{{- define "assay.trainerMounts" -}}
{{ include "assay.sharedMounts" (dict "root" .root) }}
{{- if .root.Values.trainer.datasets.existingClaim }}
- {name: data, mountPath: /var/lib/assay/data, readOnly: true}
{{- end }}
{{- end -}}

{{- define "assay.trainerVolumes" -}}
{{- $part := .root.Values.trainer -}}
{{ include "assay.sharedVolumes" (dict "root" .root "scratch" $part.scratch "sharedMemory" $part.sharedMemory) }}
{{- with $part.datasets.existingClaim }}
- name: data
  persistentVolumeClaim:
    claimName: {{ . }}
{{- end }}
{{- end -}}
