{{/* Folders of models and runs, shared memory and scratch of a part with a GPU. Takes root and, of
     engines and router, served: they see runs only where weights come by that folder. */}}
{{- define "assay.sharedMounts" -}}
{{- if ne .root.Values.inference.modelCache.kind "none" }}
- {name: models, mountPath: /var/lib/assay/models, readOnly: true}
{{- end }}
{{- if include "assay.seesRuns" . }}
- {name: runs, mountPath: /var/lib/assay/runs, readOnly: {{ .served | default false }}}
{{- end }}
{{- if and .served (eq .root.Values.trainer.weightTransfer "upload") }}
- {name: uploads, mountPath: /var/lib/assay/uploads}
{{- end }}
- {name: scratch, mountPath: /tmp}
- {name: cache, mountPath: /var/lib/assay/cache}
- {name: shm, mountPath: /dev/shm}
{{- end -}}

{{/* Whether a part mounts the volume of runs. Takes root and served. */}}
{{- define "assay.seesRuns" -}}
{{- $trainer := .root.Values.trainer -}}
{{- if and $trainer.enabled (not (and .served (eq $trainer.weightTransfer "upload"))) -}}true{{- end -}}
{{- end -}}

{{/* The volumes of these mounts. Takes also scratch and sharedMemory. */}}
{{- define "assay.sharedVolumes" -}}
{{- include "assay.modelVolume" .root }}
{{- if include "assay.seesRuns" . }}
- name: runs
  persistentVolumeClaim:
    claimName: {{ include "assay.runsClaim" .root | quote }}
{{- end }}
{{- if and .served (eq .root.Values.trainer.weightTransfer "upload") }}
- name: uploads
  emptyDir: {sizeLimit: {{ .root.Values.inference.uploadsGi }}Gi}
{{- end }}
- name: scratch
  emptyDir: {sizeLimit: {{ .scratch | quote }}}
- name: cache
  emptyDir: {sizeLimit: {{ .scratch | quote }}}
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ .sharedMemory | quote }}}
{{- end -}}

{{/* Where models lie: a claim that all share, a folder of the node, or a volume of the pod's own.
     Takes root. */}}
{{- define "assay.modelVolume" -}}
{{- $cache := .Values.inference.modelCache -}}
{{- if eq $cache.kind "claim" }}
- name: models
  persistentVolumeClaim:
    claimName: {{ include "assay.modelsClaim" . | quote }}
{{- else if eq $cache.kind "node" }}
- name: models
  hostPath: {path: {{ $cache.nodePath | quote }}, type: Directory}
{{- else if and (eq $cache.kind "pod") $cache.storageClass }}
- name: models
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: {{ $cache.storageClass | quote }}
        resources:
          requests:
            storage: {{ $cache.size | quote }}
{{- else if eq $cache.kind "pod" }}
- name: models
  emptyDir: {sizeLimit: {{ $cache.size | quote }}}
{{- end }}
{{- end -}}

{{/* Where engines and router take weights from. Takes root. */}}
{{- define "assay.weightSources" -}}
- {name: ASSAY_RUNS, value: /var/lib/assay/runs}
{{- if eq .Values.trainer.weightTransfer "upload" }}
- {name: ASSAY_WEIGHT_TRANSFER, value: upload}
- {name: ASSAY_INFERENCE_UPLOAD_FOLDER, value: /var/lib/assay/uploads}
- {name: ASSAY_INFERENCE_UPLOAD_MAX_BYTES, value: {{ mul .Values.inference.uploadsGi 1073741824 | quote }}}
{{- end }}
{{- end -}}

{{/* How many pods may mount a volume at once: `models` or `runs`. Takes root and volume. */}}
{{- define "assay.volumeUsers" -}}
{{- $v := .root.Values -}}
{{- $engines := ternary $v.inference.autoscaling.maxReplicas $v.inference.replicas $v.inference.autoscaling.enabled -}}
{{- $served := ternary $engines 0 $v.inference.enabled | int -}}
{{- if include "assay.routed" .root -}}{{- $served = add1 $served -}}{{- end -}}
{{- if and (eq .volume "runs") (eq $v.trainer.weightTransfer "upload") -}}{{- $served = 0 -}}{{- end -}}
{{- $trainers := ternary (include "assay.trainerNodes" .root | default "1" | int) 0 $v.trainer.enabled -}}
{{- $downloads := ternary 1 0 (and (eq .volume "models") (ne (include "assay.downloads" .root) "")) -}}
{{- add $served $trainers $downloads -}}
{{- end -}}

{{/* Whether a Job fills the claim of models. Takes root. */}}
{{- define "assay.downloads" -}}
{{- $inference := .Values.inference -}}
{{- if and $inference.enabled $inference.modelDownload.enabled (eq $inference.modelCache.kind "claim") -}}true{{- end -}}
{{- end -}}

{{/* Where libraries may write, and that they ask nobody outside. */}}
{{- define "assay.libraries" -}}
- {name: HOME, value: /tmp}
- {name: USER, value: assay}
- {name: HF_HUB_OFFLINE, value: "1"}
- {name: DO_NOT_TRACK, value: "1"}
{{- end -}}
