{{/* Refuses requirements that the schema cannot judge and the server would not start with: it would serve on with those
     before, until it is restarted. */}}
{{- define "outrigger.checkRequirements" -}}
{{- $keys := list -}}
{{- range $index, $rule := .Values.requirements.labels }}
{{- $field := printf "requirements.labels[%d]" $index }}
{{- if has .key $keys }}
{{- fail (printf "%s.key: there is a rule for the label %s already" $field .key) }}
{{- end }}
{{- $keys = append $keys .key }}
{{- with .pattern }}
{{- /* One more choice, of nothing, so that any good expression matches. By itself too: "a)|(b" is none. */}}
{{- if not (and (regexMatch (printf "%s|" .) "") (regexMatch (printf "(?:%s)|" .) "")) }}
{{- fail (printf "%s.pattern: %s is no regular expression (of the syntax RE2)" $field .) }}
{{- end }}
{{- end }}
{{- with .default }}
{{- if and $rule.values (not (has . $rule.values)) }}
{{- fail (printf "%s.default: %s is not one of its values" $field .) }}
{{- end }}
{{- if and $rule.pattern (not (regexMatch (printf "^(?:%s)$" $rule.pattern) .)) }}
{{- fail (printf "%s.default: %s does not match its pattern" $field .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
