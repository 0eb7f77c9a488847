{{/* Seconds that a trainer has to end: on spot nodes no more than the cloud's notice. Takes root. */}}
{{- define "assay.trainerGraceS" -}}
{{- .Values.trainer.spot.noticeS | default .Values.trainer.graceS -}}
{{- end -}}

{{/* What the service and a single run have in common. Takes root and part. */}}
{{- define "assay.trainerEnvironment" -}}
{{- $part := .part -}}
{{- $context := dict "root" .root "part" $part -}}
{{ include "assay.shutdownGrace" $context }}
{{- include "assay.ownToken" (dict "root" .root "service" "trainer") }}
{{- include "assay.callees" (dict "root" .root "services" (list "inference" "reward")) }}
{{ include "assay.redisEnvironment" $context }}
{{ include "assay.libraries" .root }}
- {name: ASSAY_RUNS, value: /var/lib/assay/runs}
- {name: ASSAY_WEIGHT_TRANSFER, value: {{ $part.weightTransfer | quote }}}
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
{{- include "assay.redisMounts" . }}
{{ include "assay.ownMounts" (dict "part" .root.Values.trainer) }}
{{- end -}}

{{- define "assay.trainerVolumes" -}}
{{- $part := .root.Values.trainer -}}
{{ include "assay.sharedVolumes" (dict "root" .root "scratch" $part.scratch "sharedMemory" $part.sharedMemory) }}
{{- with $part.datasets.existingClaim }}
- name: data
  persistentVolumeClaim:
    claimName: {{ . | quote }}
{{- end }}
{{- include "assay.redisVolumes" . }}
{{ include "assay.ownVolumes" (dict "part" $part) }}
{{- end -}}

{{/* The nodes of a run, where there are several; else nothing. Takes root. */}}
{{- define "assay.trainerNodes" -}}
{{- $part := .Values.trainer -}}
{{- if and $part.enabled (eq $part.kind "Job") (gt (int $part.nodes) 1) -}}{{ $part.nodes }}{{- end -}}
{{- end -}}

{{/* The folder of a run: its name, and a digest of its files. A changed run file begins a new run
     in a new folder; all other changes resume the run. Takes root. */}}
{{- define "assay.runFolder" -}}
{{- $run := .Values.trainer.run -}}
{{ $run.name }}-{{ list $run.file $run.pipeline $run.files | toJson | sha256sum | trunc 8 }}
{{- end -}}

{{/* The name of a run's Job or JobSet. Kubernetes lets neither be changed, so the name ends with a
     digest of all that cannot be changed: a change makes another one. Takes root. */}}
{{- define "assay.runName" -}}
{{- $several := ne (include "assay.trainerNodes" .) "" -}}
{{- $spec := include (ternary "assay.jobSetSpec" "assay.jobSpec" $several) (dict "root" . "runName" "NAME") -}}
{{- $name := printf "%s-run-%s" (include "assay.fullname" .) .Values.trainer.run.name -}}
{{- $name | trunc (ternary 38 54 $several) | trimSuffix "-" }}-{{ $spec | sha256sum | trunc 8 }}
{{- end -}}

{{/* The name of the ConfigMap with a run's files: a run that is ending keeps its own. Takes root. */}}
{{- define "assay.runFiles" -}}
{{- $name := printf "%s-run-%s" (include "assay.fullname" .) (include "assay.runFolder" .) -}}
{{- $name | trunc 54 | trimSuffix "-" }}-{{ $name | sha256sum | trunc 8 }}
{{- end -}}

{{/* What cannot be changed of a Job. Takes root and runName. */}}
{{- define "assay.jobSpec" -}}
podReplacementPolicy: Failed
podFailurePolicy:
  rules:
    # A node that is drained is no fault of the run.
    - action: Ignore
      onPodConditions:
        - {type: DisruptionTarget, status: "True"}
    # A configuration that is refused (exit code 2) stays refused: a retry would only hold a GPU.
    - action: FailJob
      onExitCodes: {containerName: trainer, operator: In, values: [2]}
template:
  {{- include "assay.runPod" . | nindent 2 }}
{{- end -}}

{{/* The pod of a run, or of each of its nodes. The first node leads: only its process reads the run
     file. The processes of the others follow it. Takes root and runName. */}}
{{- define "assay.runPod" -}}
{{- $trainer := .root.Values.trainer -}}
{{- $part := merge (dict "graceS" (int (include "assay.trainerGraceS" .root))) $trainer -}}
{{- $name := .runName -}}
{{- $run := dict "root" .root "component" "trainer" "part" $part "network" "trainer" "scratch" $trainer.scratch "suffix" (include "assay.accelerated" $trainer) -}}
{{- $gpus := int (ternary $part.gpus 1 (eq $part.accelerator "nvidia")) -}}
metadata:
  {{- include "assay.podMetadata" $run | nindent 2 }}
spec:
  {{- include "assay.pod" $run | nindent 2 }}
  restartPolicy: Never
  {{- include "assay.fetchModel" $run | nindent 2 }}
  containers:
    - name: trainer
      image: {{ include "assay.image" $run | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command:
        - sh
        - -ec
        - |
          {{- if $part.run.pipeline }}
          exec assay pipeline run /etc/assay/pipeline.yaml --folder "$RUN_FOLDER"
          {{- else }}
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
          {{- end }}
      env:
        - {name: RUN_FOLDER, value: {{ printf "/var/lib/assay/runs/%s" (include "assay.runFolder" .root) | quote }}}
        {{- include "assay.trainerEnvironment" $run | nindent 8 }}
      resources:
        {{- include "assay.resources" $run | nindent 8 }}
      securityContext:
        {{- include "assay.containerSecurity" .root | nindent 8 }}
      volumeMounts:
        - {name: run, mountPath: /etc/assay, readOnly: true}
        {{- include "assay.trainerMounts" $run | nindent 8 }}
  volumes:
    - name: run
      configMap:
        name: {{ include "assay.runFiles" .root | quote }}
    {{- include "assay.trainerVolumes" $run | nindent 4 }}
{{- end -}}
