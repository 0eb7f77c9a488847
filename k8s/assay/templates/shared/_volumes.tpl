{{/* Folders of models and runs, shared memory and scratch of a part with a GPU. Takes root, part and
     readOnlyRuns. */}}
{{- define "assay.sharedMounts" -}}
- {name: models, mountPath: /var/lib/assay/models, readOnly: true}
{{- if .root.Values.trainer.enabled }}
- {name: runs, mountPath: /var/lib/assay/runs, readOnly: {{ .readOnlyRuns | default false }}}
{{- end }}
- {name: scratch, mountPath: /tmp}
- {name: cache, mountPath: /var/lib/assay/cache}
- {name: shm, mountPath: /dev/shm}
{{- end -}}

{{- define "assay.sharedVolumes" -}}
- name: models
  persistentVolumeClaim:
    claimName: {{ include "assay.modelsClaim" .root }}
{{- if .root.Values.trainer.enabled }}
- name: runs
  persistentVolumeClaim:
    claimName: {{ include "assay.runsClaim" .root }}
{{- end }}
- name: scratch
  emptyDir: {sizeLimit: {{ .scratch }}}
- name: cache
  emptyDir: {sizeLimit: {{ .scratch }}}
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ .sharedMemory }}}
{{- end -}}

{{/* Where libraries may write, and that they ask nobody outside. */}}
{{- define "assay.libraries" -}}
- {name: HOME, value: /tmp}
- {name: USER, value: assay}
- {name: HF_HUB_OFFLINE, value: "1"}
- {name: DO_NOT_TRACK, value: "1"}
{{- end -}}
