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

{{/* The nodes of a run, where there are several; else nothing. Takes root. */}}
{{- define "assay.trainerNodes" -}}
{{- $part := .Values.trainer -}}
{{- if and $part.enabled (eq $part.kind "Job") (gt (int $part.nodes) 1) -}}{{ $part.nodes }}{{- end -}}
{{- end -}}

{{/* What a run is called. Takes root. */}}
{{- define "assay.runName" -}}
{{ include "assay.fullname" . }}-run-{{ .Values.trainer.run.name }}
{{- end -}}

{{/* The pod of a run, or of each of its nodes. The first node leads: only its process reads the run
     file. The processes of the others follow it. Takes root, component, part and suffix. */}}
{{- define "assay.runPod" -}}
{{- $part := .part -}}
{{- $name := include "assay.runName" .root -}}
{{- $gpus := int (ternary $part.gpus 1 (eq $part.accelerator "nvidia")) -}}
metadata:
  labels:
    {{- include "assay.labels" . | nindent 4 }}
    assay/network: trainer
spec:
  {{- include "assay.pod" . | nindent 2 }}
  {{- include "assay.placement" . | nindent 2 }}
  {{- with $part.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  restartPolicy: Never
  {{- include "assay.waitForModel" . | nindent 2 }}
  containers:
    - name: trainer
      image: {{ include "assay.image" . }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command:
        - sh
        - -ec
        - |
          set -- /etc/assay/run.yaml --folder "$RUN_FOLDER"
          if [ -e "$RUN_FOLDER/config.json" ]; then
            set -- --resume "$RUN_FOLDER"
          fi
          {{- with include "assay.trainerNodes" .root }}
          exec torchrun --nnodes {{ . }} --node-rank "$JOB_COMPLETION_INDEX" --nproc-per-node {{ $gpus }} \
            --rdzv-endpoint {{ $name }}-node-0-0.{{ $name }}:29500 --rdzv-conf timeout={{ $part.joinS }} \
            --max-restarts 0 --shutdown-timeout {{ sub (int $part.graceS) 15 }} \
            --no-python assay train "$@" --quiet
          {{- else }}
          exec assay train "$@" --quiet{{ if gt $gpus 1 }} --gpus {{ untilStep 0 $gpus 1 | join "," }}{{ end }}
          {{- end }}
      env:
        - {name: RUN_FOLDER, value: {{ printf "/var/lib/assay/runs/%s" $part.run.name | quote }}}
        {{- include "assay.trainerEnvironment" . | nindent 8 }}
      resources:
        {{- include "assay.resources" . | nindent 8 }}
      securityContext:
        {{- include "assay.containerSecurity" .root | nindent 8 }}
      volumeMounts:
        - {name: run, mountPath: /etc/assay, readOnly: true}
        {{- include "assay.trainerMounts" . | nindent 8 }}
  volumes:
    - name: run
      configMap:
        name: {{ include "assay.fullname" .root }}-trainer
    {{- include "assay.trainerVolumes" . | nindent 4 }}
{{- end -}}
