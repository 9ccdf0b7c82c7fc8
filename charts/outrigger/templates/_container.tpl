{{/* What the server's container is told. */}}

{{/* Every variable that the chart sets, as a list in YAML. */}}
{{- define "outrigger.env" -}}
{{- $fullname := include "outrigger.fullname" . -}}
- name: OUTRIGGER_RELEASE_NAMESPACE
  value: {{ .Release.Namespace | quote }}
{{- with .Values.injection.excludedNamespaces }}
- name: OUTRIGGER_EXCLUDED_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
- name: OUTRIGGER_INJECT_DEFAULT
  value: {{ .Values.injection.default | quote }}
- name: OUTRIGGER_WATCH_SERVICES
  value: {{ ternary "enabled" "disabled" .Values.injection.watchServices | quote }}
- name: OUTRIGGER_LISTEN
  value: {{ printf "[::]:%v" .Values.ports.webhook | quote }}
- name: OUTRIGGER_ADMIN_LISTEN
  value: {{ printf "[::]:%v" .Values.ports.admin | quote }}
- name: OUTRIGGER_LOG
  value: {{ .Values.logging.level | quote }}
- name: OUTRIGGER_LOG_FORMAT
  value: {{ .Values.logging.format | quote }}
- name: OUTRIGGER_DRAIN_DELAY
  value: {{ printf "%vs" .Values.shutdown.drainDelaySeconds }}
- name: OUTRIGGER_DRAIN_TIMEOUT
  value: {{ printf "%vs" .Values.shutdown.drainTimeoutSeconds }}
{{- if eq .Values.certificates.mode "self-managed" }}
- name: OUTRIGGER_CERT_SECRET
  value: {{ include "outrigger.certificateSecret" . | quote }}
- name: OUTRIGGER_CERT_NAMES
  value: {{ include "outrigger.certificateNames" . | fromYamlArray | join "," | quote }}
- name: OUTRIGGER_CERT_LIFETIME
  value: {{ .Values.certificates.lifetime | quote }}
- name: OUTRIGGER_CA_LIFETIME
  value: {{ .Values.certificates.caLifetime | quote }}
- name: OUTRIGGER_CA_OVERLAP
  value: {{ .Values.certificates.caOverlap | quote }}
- name: OUTRIGGER_WEBHOOK_CONFIGURATION
  value: {{ $fullname | quote }}
{{- else }}
- name: OUTRIGGER_CERT_FILE
  value: /etc/outrigger/tls/tls.crt
- name: OUTRIGGER_KEY_FILE
  value: /etc/outrigger/tls/tls.key
{{- end }}
{{- with .Values.identity }}
{{- if .enabled }}
- name: OUTRIGGER_SIGNER_SECRET
  value: {{ include "outrigger.identitySecret" $ | quote }}
- name: OUTRIGGER_SIGNER_MODE
  value: {{ ternary "secret" "self-managed" (ne .secretName "") }}
- name: OUTRIGGER_SIGNER_LEAF_LIFETIME
  value: {{ .leafLifetime | quote }}
- name: OUTRIGGER_SIGNER_CA_LIFETIME
  value: {{ .caLifetime | quote }}
- name: OUTRIGGER_SIGNER_OVERLAP
  value: {{ .caOverlap | quote }}
- name: OUTRIGGER_SIGNER_KEY_TYPE
  value: {{ .caKeyType | quote }}
{{- if $.Values.rbac.create }}
- name: OUTRIGGER_CLUSTER_ROLE
  value: {{ $fullname | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if include "outrigger.elects" . }}
- name: OUTRIGGER_LEASE
  value: "{{ $fullname }}-leader"
- name: OUTRIGGER_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
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

{{/* Durations within their bounds. The argument: a list of the values' section, its name, and bounds by key. */}}
{{- define "outrigger.checkBounds" -}}
{{- $section := index . 0 }}
{{- $name := index . 1 }}
{{- range $key, $bounds := index . 2 }}
{{- $seconds := include "outrigger.seconds" (get $section $key) | int64 }}
{{- if or (lt $seconds (include "outrigger.seconds" (first $bounds) | int64)) (gt $seconds (include "outrigger.seconds" (last $bounds) | int64)) }}
{{- fail (printf "%s.%s: %s is not from %s to %s" $name $key (get $section $key) (first $bounds) (last $bounds)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the server would refuse at its start. */}}
{{- define "outrigger.checkIdentity" -}}
{{- with .Values.identity }}
{{- include "outrigger.checkBounds" (list . "identity" (dict "leafLifetime" (list "1h" "2184h") "caLifetime" (list "1m" "876000h") "caOverlap" (list "1s" "24h"))) }}
{{- $lifetime := include "outrigger.seconds" .caLifetime | int64 }}
{{- if lt $lifetime (include "outrigger.seconds" .leafLifetime | int64 | mul 6) }}
{{- fail (printf "identity.caLifetime: %s is less than six times identity.leafLifetime, %s" .caLifetime .leafLifetime) }}
{{- end }}
{{- if lt $lifetime (include "outrigger.seconds" .caOverlap | int64 | mul 12) }}
{{- fail (printf "identity.caLifetime: %s is less than twelve times identity.caOverlap, %s" .caLifetime .caOverlap) }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the server would refuse at its start. */}}
{{- define "outrigger.checkLifetimes" -}}
{{- with .Values.certificates }}
{{- if eq .mode "self-managed" }}
{{- include "outrigger.checkBounds" (list . "certificates" (dict "lifetime" (list "1m" "876000h") "caLifetime" (list "1m" "876000h") "caOverlap" (list "1s" "24h"))) }}
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
    name: "{{ include "outrigger.fullname" . }}-requirements"
{{- if .Values.templates }}
- name: templates
  configMap:
    name: "{{ include "outrigger.fullname" . }}-templates"
{{- end }}
{{- if ne .Values.certificates.mode "self-managed" }}
- name: tls
  secret:
    secretName: {{ include "outrigger.certificateSecret" . | quote }}
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
