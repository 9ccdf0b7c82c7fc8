{{/* What the server's container is told. */}}

{{/* Every variable that the chart sets, as a list in YAML. */}}
{{- define "outrigger.env" -}}
{{- $fullname := include "outrigger.fullname" . -}}
- name: OUTRIGGER_RELEASE_NAMESPACE
  value: {{ .Release.Namespace }}
{{- with .Values.injection.excludedNamespaces }}
- name: OUTRIGGER_EXCLUDED_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
- name: OUTRIGGER_INJECT_DEFAULT
  value: {{ .Values.injection.default }}
- name: OUTRIGGER_LISTEN
  value: {{ printf "[::]:%v" .Values.ports.webhook | quote }}
- name: OUTRIGGER_ADMIN_LISTEN
  value: {{ printf "[::]:%v" .Values.ports.admin | quote }}
- name: OUTRIGGER_LOG
  value: {{ .Values.logging.level | quote }}
- name: OUTRIGGER_LOG_FORMAT
  value: {{ .Values.logging.format }}
- name: OUTRIGGER_DRAIN_DELAY
  value: {{ printf "%vs" .Values.shutdown.drainDelaySeconds }}
- name: OUTRIGGER_DRAIN_TIMEOUT
  value: {{ printf "%vs" .Values.shutdown.drainTimeoutSeconds }}
{{- if eq .Values.certificates.mode "self-managed" }}
- name: OUTRIGGER_CERT_SECRET
  value: {{ include "outrigger.certificateSecret" . }}
- name: OUTRIGGER_CERT_NAMES
  value: {{ include "outrigger.certificateNames" . | fromYamlArray | join "," | quote }}
- name: OUTRIGGER_CERT_LIFETIME
  value: {{ .Values.certificates.lifetime }}
- name: OUTRIGGER_CA_LIFETIME
  value: {{ .Values.certificates.caLifetime }}
- name: OUTRIGGER_CA_OVERLAP
  value: {{ .Values.certificates.caOverlap }}
- name: OUTRIGGER_WEBHOOK_CONFIGURATION
  value: {{ $fullname }}
- name: OUTRIGGER_LEASE
  value: {{ $fullname }}-leader
- name: OUTRIGGER_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- else }}
- name: OUTRIGGER_CERT_FILE
  value: /etc/outrigger/tls/tls.crt
- name: OUTRIGGER_KEY_FILE
  value: /etc/outrigger/tls/tls.key
{{- end }}
- name: OUTRIGGER_REQUIREMENTS_FILE
  value: /etc/outrigger/requirements/requirements.yaml
{{- if .Values.templates }}
- name: OUTRIGGER_TEMPLATES_DIR
  value: /etc/outrigger/templates
{{- end }}
{{- $settings := deepCopy .Values.settings }}
{{- if not (hasKey $settings "redirectImage") }}
{{- $settings = set $settings "redirectImage" (include "outrigger.image" .) }}
{{- end }}
{{- range $key, $value := $settings }}
- name: OUTRIGGER_{{ snakecase $key | upper }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{/* The same with those of the values. Two of one name would be a riddle: which one counts? */}}
{{- define "outrigger.allEnv" -}}
{{- $own := include "outrigger.env" . | fromYamlArray -}}
{{- range $index, $added := .Values.extraEnv }}
{{- range $own }}
{{- if eq .name $added.name }}
{{- fail (printf "extraEnv[%d].name: the chart sets %s itself; use its value, README.md lists them" $index .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- concat $own .Values.extraEnv | toYaml }}
{{- end }}

{{/* What the server would refuse at its start. */}}
{{- define "outrigger.checkLifetimes" -}}
{{- with .Values.certificates }}
{{- if eq .mode "self-managed" }}
{{- $lifetime := include "outrigger.seconds" .lifetime | int64 }}
{{- if lt (include "outrigger.seconds" .caLifetime | int64) $lifetime }}
{{- fail (printf "certificates.lifetime: %s is longer than certificates.caLifetime, %s" .lifetime .caLifetime) }}
{{- end }}
{{- if lt $lifetime (include "outrigger.seconds" .caOverlap | int64 | mul 12) }}
{{- fail (printf "certificates.lifetime: %s is less than twelve times certificates.caOverlap, %s" .lifetime .caOverlap) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What is mounted: a list of volumes, and one of mounts, each in YAML. */}}

{{- define "outrigger.volumes" -}}
- name: requirements
  configMap:
    name: {{ include "outrigger.fullname" . }}-requirements
{{- if .Values.templates }}
- name: templates
  configMap:
    name: {{ include "outrigger.fullname" . }}-templates
{{- end }}
{{- if ne .Values.certificates.mode "self-managed" }}
- name: tls
  secret:
    secretName: {{ include "outrigger.certificateSecret" . }}
    # For the group of podSecurityContext.fsGroup.
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "outrigger.volumeMounts" -}}
{{/* Folders, never single files: the kubelet would not renew those. */ -}}
- {name: requirements, mountPath: /etc/outrigger/requirements, readOnly: true}
{{- if .Values.templates }}
- {name: templates, mountPath: /etc/outrigger/templates, readOnly: true}
{{- end }}
{{- if ne .Values.certificates.mode "self-managed" }}
- {name: tls, mountPath: /etc/outrigger/tls, readOnly: true}
{{- end }}
{{- end }}

{{/* The constraints of the values, made to count the server's own pods, those of each revision by themselves: during
     an update the old ones do not stand in the way of the new. */}}
{{- define "outrigger.topologySpreadConstraints" -}}
{{- $selector := dict "matchLabels" (include "outrigger.selectorLabels" . | fromYaml) }}
{{- $complete := list }}
{{- range .Values.topologySpreadConstraints }}
{{- $own := dict "labelSelector" $selector "matchLabelKeys" (list "pod-template-hash") }}
{{- $complete = append $complete (ternary . (merge (deepCopy .) $own) (hasKey . "labelSelector")) }}
{{- end }}
{{- with $complete }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* The annotations of a pod: those of the values, and the chart's own. */}}
{{- define "outrigger.podAnnotations" -}}
{{/* Who asks for logs means the server. */ -}}
{{- $own := dict "kubectl.kubernetes.io/default-container" "outrigger" }}
{{- with .Values.templates }}
{{/* Templates are read at the start: new ones need new pods. */ -}}
{{- $own = set $own "checksum/templates" (toYaml . | sha256sum) }}
{{- end }}
{{- merge (deepCopy .Values.podAnnotations) $own | toYaml }}
{{- end }}
